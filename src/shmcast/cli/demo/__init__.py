"""``shmcast demo``: real processes, real faults, and a verdict from what each receiver got.

worker.py is one sender or receiver, logs.py what it writes down, cast.py the processes, script.py
the faults in their order, verdict.py the judgement, show.py what the audience sees.
"""
