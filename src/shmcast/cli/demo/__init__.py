"""``shmcast demo``: real processes, real faults, and a verdict from what each of them wrote down.

worker.py is one sender, receiver or client, replica.py what the cluster's replicas do, logs.py what
all of them write down. cast.py and troupe.py are the processes, script.py the faults in order,
scene.py and show.py what the audience sees. record.py reads the logs, verdict.py counts what is
lost, verification.py asks the checkers of recorded runs; closing.py and report.py tell the result.
"""
