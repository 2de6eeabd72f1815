/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* The tree's own file, without what it says in BPF's assembly. */
#ifndef SCHEDLAB_SCX_COMMON_H
#define SCHEDLAB_SCX_COMMON_H

#include "vmlinux.h"
/* sched.h of the kernel has a function of this name. */
#define is_migration_disabled schedlab_is_migration_disabled
#include_next <scx/common.bpf.h>
#include <bpf/bpf_core_read.h>

#undef MEMBER_VPTR
#define MEMBER_VPTR(base, member) ({							\
	typeof(&((base) member)) at_ = &((base) member);				\
											\
	(void *)at_ >= (void *)&(base) &&						\
	(void *)at_ <= (void *)&(base) + sizeof(base) - sizeof(*at_) ? at_ : NULL;	\
})
#undef ARRAY_ELEM_PTR
#define ARRAY_ELEM_PTR(array, at, count) ({						\
	u64 index_ = (at);								\
											\
	index_ < (count) ? &(array)[index_] : NULL;					\
})
/* Its user half gives such an array an element for each CPU. */
#undef RESIZABLE_ARRAY
#define RESIZABLE_ARRAY(section, array) array[NR_CPUS]

/* A wait for another CPU would never end: CPUs take turns. */
#define scx_bpf_kick_cpu(cpu, flags) ({							\
	u64 flags_ = (flags);								\
											\
	if (flags_ & SCX_KICK_WAIT)							\
		schedlab_cannot("SCX_KICK_WAIT");					\
	scx_bpf_kick_cpu(cpu, flags_);							\
})
void schedlab_cannot(const char *what);

#endif
