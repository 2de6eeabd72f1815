/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* One host thread runs all simulated CPUs, so plain memory is atomic for them. */
#ifndef _ASM_ATOMIC_H
#define _ASM_ATOMIC_H

#include <linux/types.h>
#include <asm/barrier.h>
#include <asm/cmpxchg.h>

#define ATOMIC64_INIT(value) { (value) }

#define arch_atomic_read(v) READ_ONCE((v)->counter)
#define arch_atomic_set(v, value) WRITE_ONCE((v)->counter, (value))
#define arch_atomic64_read(v) READ_ONCE((v)->counter)
#define arch_atomic64_set(v, value) WRITE_ONCE((v)->counter, (value))

#define SCHEDLAB_CHANGE(name, type, op, change)						\
static __always_inline void arch_##name##_##op(type by, name##_t *v)			\
{											\
	v->counter = v->counter change by;						\
}											\
static __always_inline type arch_##name##_fetch_##op(type by, name##_t *v)		\
{											\
	type before = v->counter;							\
											\
	v->counter = before change by;							\
	return before;									\
}
#define SCHEDLAB_SUM(name, type, op, change)						\
SCHEDLAB_CHANGE(name, type, op, change)							\
static __always_inline type arch_##name##_##op##_return(type by, name##_t *v)		\
{											\
	return v->counter = v->counter change by;					\
}
#define SCHEDLAB_ALL(name, type)							\
	SCHEDLAB_SUM(name, type, add, +)						\
	SCHEDLAB_SUM(name, type, sub, -)						\
	SCHEDLAB_CHANGE(name, type, and, &)						\
	SCHEDLAB_CHANGE(name, type, or, |)						\
	SCHEDLAB_CHANGE(name, type, xor, ^)

SCHEDLAB_ALL(atomic, int)
SCHEDLAB_ALL(atomic64, s64)

#define arch_atomic_add_return arch_atomic_add_return
#define arch_atomic_sub_return arch_atomic_sub_return
#define arch_atomic_fetch_add arch_atomic_fetch_add
#define arch_atomic_fetch_sub arch_atomic_fetch_sub
#define arch_atomic_fetch_and arch_atomic_fetch_and
#define arch_atomic_fetch_or arch_atomic_fetch_or
#define arch_atomic_fetch_xor arch_atomic_fetch_xor
#define arch_atomic64_add_return arch_atomic64_add_return
#define arch_atomic64_sub_return arch_atomic64_sub_return
#define arch_atomic64_fetch_add arch_atomic64_fetch_add
#define arch_atomic64_fetch_sub arch_atomic64_fetch_sub
#define arch_atomic64_fetch_and arch_atomic64_fetch_and
#define arch_atomic64_fetch_or arch_atomic64_fetch_or
#define arch_atomic64_fetch_xor arch_atomic64_fetch_xor
#define arch_atomic_xchg(v, value) arch_xchg(&(v)->counter, value)
#define arch_atomic_cmpxchg(v, old, value) arch_cmpxchg(&(v)->counter, old, value)
#define arch_atomic64_xchg(v, value) arch_xchg(&(v)->counter, value)
#define arch_atomic64_cmpxchg(v, old, value) arch_cmpxchg(&(v)->counter, old, value)

#endif
