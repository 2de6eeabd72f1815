/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
#ifndef _ASM_CMPXCHG_H
#define _ASM_CMPXCHG_H

#define arch_xchg(place, value) ({			\
	__typeof__(place) at_ = (place);		\
	__typeof__(*at_) before_ = *at_;		\
							\
	*at_ = (__typeof__(*at_))(value);		\
	before_;					\
})
#define arch_cmpxchg(place, old, value) ({		\
	__typeof__(place) at_ = (place);		\
	__typeof__(*at_) before_ = *at_;		\
							\
	if (before_ == (__typeof__(*at_))(old))		\
		*at_ = (__typeof__(*at_))(value);	\
	before_;					\
})

#define arch_xchg_relaxed arch_xchg
#define arch_xchg_acquire arch_xchg
#define arch_xchg_release arch_xchg
#define arch_cmpxchg_relaxed arch_cmpxchg
#define arch_cmpxchg_acquire arch_cmpxchg
#define arch_cmpxchg_release arch_cmpxchg
#define arch_cmpxchg_local arch_cmpxchg
#define arch_cmpxchg64 arch_cmpxchg
#define arch_cmpxchg64_relaxed arch_cmpxchg
#define arch_cmpxchg64_acquire arch_cmpxchg
#define arch_cmpxchg64_release arch_cmpxchg
#define arch_cmpxchg64_local arch_cmpxchg

#endif
