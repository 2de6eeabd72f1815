/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
#ifndef _ASM_SYSCALL_H
#define _ASM_SYSCALL_H

#include <uapi/linux/audit.h>

struct task_struct;

static inline int syscall_get_arch(struct task_struct *task)
{
	return 0;
}

#endif
