/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
#ifndef _ASM_THREAD_INFO_H
#define _ASM_THREAD_INFO_H

#include <asm/page.h>

/* The linker's stack of init is not used: glue.c makes all stacks. */
#define THREAD_SIZE_ORDER 1
#define THREAD_SHIFT (PAGE_SHIFT + THREAD_SIZE_ORDER)
#define THREAD_SIZE (PAGE_SIZE << THREAD_SIZE_ORDER)

#ifndef __ASSEMBLY__

struct thread_info {
	unsigned long flags;
	unsigned long syscall_work;
	int preempt_count;
	unsigned int cpu;
};
#define INIT_THREAD_INFO(task) { .preempt_count = INIT_PREEMPT_COUNT }

#endif

#define TIF_NEED_RESCHED 0
#define TIF_NEED_RESCHED_LAZY 1
#define TIF_POLLING_NRFLAG 2
#define TIF_SIGPENDING 3
#define TIF_NOTIFY_SIGNAL 4
#define TIF_NOTIFY_RESUME 5
#define TIF_SYSCALL_TRACE 6
#define TIF_MEMDIE 7
#define TIF_RESTORE_SIGMASK 8
#define TIF_UPROBE 9

#define _TIF_NEED_RESCHED (1 << TIF_NEED_RESCHED)
#define _TIF_NEED_RESCHED_LAZY (1 << TIF_NEED_RESCHED_LAZY)
#define _TIF_POLLING_NRFLAG (1 << TIF_POLLING_NRFLAG)
#define _TIF_SIGPENDING (1 << TIF_SIGPENDING)
#define _TIF_NOTIFY_SIGNAL (1 << TIF_NOTIFY_SIGNAL)
#define _TIF_NOTIFY_RESUME (1 << TIF_NOTIFY_RESUME)
#define _TIF_SYSCALL_TRACE (1 << TIF_SYSCALL_TRACE)
#define _TIF_UPROBE (1 << TIF_UPROBE)

#endif
