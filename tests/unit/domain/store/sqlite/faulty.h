/* SPDX-License-Identifier: Apache-2.0 */
/* A disk that fails on demand: a VFS of SQLite's in front of the real one. */
#ifndef TESTS_STORE_FAULTY_H
#define TESTS_STORE_FAULTY_H

enum fault { FAULT_NONE, FAULT_FULL, FAULT_IO };

void faulty_install(void); /* every connection that is opened from now on */

/* From the n-th call on that changes something (1 is the next), `times` calls fail. */
void faulty_arm(enum fault f, int n, int times);
/* The same, of calls on the database itself: those that write the log back. */
void faulty_arm_database(enum fault f, int n, int times);
/* The same for calls that wait for the disk: fsync() and fdatasync(), of any file. */
void faulty_arm_sync(enum fault f, int n, int times);
int faulty_failed(void); /* since then */
int faulty_calls(void);  /* that could have */

#endif
