/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* A CPU gives back control only where it holds no lock, so a lock that is held is a deadlock. */
#ifndef _ASM_SPINLOCK_H
#define _ASM_SPINLOCK_H

void schedlab_deadlock(void *lock);

static inline int arch_spin_is_locked(arch_spinlock_t *lock)
{
	return lock->held;
}

static inline int arch_spin_value_unlocked(arch_spinlock_t lock)
{
	return !lock.held;
}

static inline int arch_spin_is_contended(arch_spinlock_t *lock)
{
	return 0;
}

static inline int arch_spin_trylock(arch_spinlock_t *lock)
{
	if (lock->held)
		return 0;
	return lock->held = 1;
}

static inline void arch_spin_lock(arch_spinlock_t *lock)
{
	if (!arch_spin_trylock(lock))
		schedlab_deadlock(lock);
}

static inline void arch_spin_unlock(arch_spinlock_t *lock)
{
	lock->held = 0;
}

static inline int arch_read_trylock(arch_rwlock_t *lock)
{
	if (lock->held < 0)
		return 0;
	return ++lock->held;
}

static inline int arch_write_trylock(arch_rwlock_t *lock)
{
	if (lock->held)
		return 0;
	lock->held = -1;
	return 1;
}

static inline void arch_read_lock(arch_rwlock_t *lock)
{
	if (!arch_read_trylock(lock))
		schedlab_deadlock(lock);
}

static inline void arch_write_lock(arch_rwlock_t *lock)
{
	if (!arch_write_trylock(lock))
		schedlab_deadlock(lock);
}

static inline void arch_read_unlock(arch_rwlock_t *lock)
{
	lock->held--;
}

static inline void arch_write_unlock(arch_rwlock_t *lock)
{
	lock->held = 0;
}

#endif
