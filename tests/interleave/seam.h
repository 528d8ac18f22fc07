/* seam.h: included before every file of csrc/: what they ask of the operating system beyond sys.h
 * goes to the checker. Names only; the code of csrc/ is compiled as it is. */
#ifndef SEAM_H
#define SEAM_H

#define calloc sim_calloc
#define free sim_free
#define memcpy sim_memcpy
#define fstat sim_fstat
#define fallocate sim_fallocate
#define pthread_create sim_thread_create
#define pthread_join sim_thread_join
#define pthread_atfork sim_atfork
#define pthread_mutex_lock sim_mutex_lock
#define pthread_mutex_unlock sim_mutex_unlock
#define pthread_mutex_init sim_mutex_init
#define pthread_mutex_destroy sim_mutex_destroy

#endif
