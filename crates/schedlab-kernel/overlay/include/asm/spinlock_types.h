/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
#ifndef _ASM_SPINLOCK_TYPES_H
#define _ASM_SPINLOCK_TYPES_H

typedef struct {
	int held;
} arch_spinlock_t;

typedef struct {
	/* Readers; -1: a writer. */
	int held;
} arch_rwlock_t;

#define __ARCH_SPIN_LOCK_UNLOCKED { 0 }
#define __ARCH_RW_LOCK_UNLOCKED { 0 }

#endif
