/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Types for a sched_ext scheduler that is compiled as code of the kernel. Programs for BPF have them from the
 * kernel's type information; here they come from its headers, and from what its ext.c defines for itself.
 */
#ifndef SCHEDLAB_VMLINUX_H
#define SCHEDLAB_VMLINUX_H

/* The name is a setting of schedulers too. */
#define nr_cpu_ids schedlab_nr_cpu_ids
#include <linux/bpf.h>
#include <linux/cgroup.h>
#include <linux/cpumask.h>
#include <linux/mmu_context.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/sched/ext.h>
#include <linux/sched/task.h>
#include <linux/string.h>
#include "sched.h"
#include "ext_types.h"
#undef nr_cpu_ids

/* From here on the file is read as for BPF. */
#ifndef __bpf__
#define __bpf__
#endif

#endif
