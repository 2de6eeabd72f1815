// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Knobs: what the kernel registers as files of debugfs and as sysctls. Each is written by its own function,
 * so limits hold and what is derived follows.
 */
#include <linux/version.h>
#include <linux/debugfs.h>
#include <linux/fs.h>
#include <linux/kernel.h>
#include <linux/seq_file.h>
#include <linux/sched/sysctl.h>
#include <linux/slab.h>
#include <linux/sysctl.h>
#include "board.h"

#define KNOBS_MAX 512

static struct knob {
	const char *name;
	/* Of a plain number of debugfs: where, and how many bytes. */
	void *number;
	int bytes;
	const struct file_operations *operations;
	void *private;
	struct ctl_table *sysctl;
} knobs[KNOBS_MAX];
static int count;

static struct knob *add(const char *name)
{
	if (count == KNOBS_MAX)
		schedlab_stop("the kernel has more than %d knobs", KNOBS_MAX);
	knobs[count].name = name;
	return &knobs[count++];
}

static void add_number(const char *name, void *number, int bytes)
{
	struct knob *knob = add(name);

	knob->number = number;
	knob->bytes = bytes;
}

void debugfs_create_u32(const char *name, umode_t mode, struct dentry *in, u32 *number)
{
	add_number(name, number, sizeof(*number));
}

void debugfs_create_u64(const char *name, umode_t mode, struct dentry *in, u64 *number)
{
	add_number(name, number, sizeof(*number));
}

void debugfs_create_ulong(const char *name, umode_t mode, struct dentry *in, unsigned long *number)
{
	add_number(name, number, sizeof(*number));
}

static struct dentry *add_file(const char *name, void *private, const struct file_operations *operations)
{
	struct knob *knob = add(name);

	knob->operations = operations;
	knob->private = private;
	return NULL;
}

struct dentry *schedlab_debugfs_file(const char *name, umode_t mode, struct dentry *in, void *private,
				     const struct file_operations *operations)
{
	return add_file(name, private, operations);
}
ALSO(schedlab_debugfs_file, debugfs_create_file);
ALSO(schedlab_debugfs_file, debugfs_create_file_unsafe);

struct dentry *debugfs_create_file_full(const char *name, umode_t mode, struct dentry *in, void *private,
					const void *more, const struct file_operations *operations)
{
	return add_file(name, private, operations);
}

static void add_table(struct ctl_table *table, size_t entries)
{
	for (; entries && table->procname; entries--, table++)
		add(table->procname)->sysctl = table;
}

/* A macro where calls say how many entries there are; elsewhere the last one has no name. */
#ifdef register_sysctl
#define ENTRIES(said) (said)
#else
#define ENTRIES(said) KNOBS_MAX
#endif

struct ctl_table_header *schedlab_register_sysctl(const char *path, struct ctl_table *table, size_t entries)
{
	add_table(table, ENTRIES(entries));
	return (struct ctl_table_header *)table;
}
ALSO(schedlab_register_sysctl, register_sysctl_sz);
#ifndef register_sysctl
ALSO(schedlab_register_sysctl, register_sysctl);
#endif

void schedlab_register_sysctls(const char *path, struct ctl_table *table, const char *name, size_t entries)
{
	add_table(table, ENTRIES(entries));
}
ALSO(schedlab_register_sysctls, __register_sysctl_init);

/* ---- the handlers of sysctls (kernel/sysctl.c is not part of the image) ---- */

/* What SYSCTL_ZERO, SYSCTL_ONE and so on name (include/linux/sysctl.h). */
const int sysctl_vals[] = { 0, 1, 2, 3, 4, 100, 200, 1000, 3000, INT_MAX, 65535, -1 };

static int limit(void *bound, int otherwise)
{
	return bound ? *(int *)bound : otherwise;
}

int schedlab_handle(const struct ctl_table *table, int write, void *buffer, size_t *bytes)
{
	int *value = table->data, wanted;

	if (!write) {
		*bytes = scnprintf(buffer, *bytes, "%d", *value);
		return 0;
	}
	if (kstrtoint(strim(buffer), 0, &wanted))
		return -EINVAL;
	if (wanted < limit(table->extra1, INT_MIN) || wanted > limit(table->extra2, INT_MAX))
		return -EINVAL;
	*value = wanted;
	return 0;
}

ALSO(schedlab_handle, proc_dointvec);
ALSO(schedlab_handle, proc_dointvec_minmax);
ALSO(schedlab_handle, proc_douintvec_minmax);

/* Before Linux 5.19 these are listed in kernel/sysctl.c, with these limits. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(5, 19, 0)
#define OLD(name, variable, handler, ...) { .procname = name, .data = &variable, .maxlen = sizeof(variable), \
					    .proc_handler = handler, ##__VA_ARGS__ }

static struct ctl_table old_sysctls[] = {
	OLD("sched_rt_period_us", sysctl_sched_rt_period, sched_rt_handler),
	OLD("sched_rt_runtime_us", sysctl_sched_rt_runtime, sched_rt_handler),
	OLD("sched_rr_timeslice_ms", sysctl_sched_rr_timeslice, sched_rr_handler),
	OLD("sched_child_runs_first", sysctl_sched_child_runs_first, proc_dointvec),
#ifdef CONFIG_SCHED_AUTOGROUP
	OLD("sched_autogroup_enabled", sysctl_sched_autogroup_enabled, proc_dointvec_minmax, .extra1 = SYSCTL_ZERO,
	    .extra2 = SYSCTL_ONE),
#endif
#ifdef CONFIG_CFS_BANDWIDTH
	OLD("sched_cfs_bandwidth_slice_us", sysctl_sched_cfs_bandwidth_slice, proc_dointvec_minmax,
	    .extra1 = SYSCTL_ONE),
#endif
};

static int add_old_sysctls(void)
{
	add_table(old_sysctls, ARRAY_SIZE(old_sysctls));
	return 0;
}
late_initcall(add_old_sysctls);
#endif

/* ---- files that print by a function ---- */

static int (*printer)(struct seq_file *, void *);

int single_open(struct file *file, int (*show)(struct seq_file *, void *), void *of)
{
	printer = show;
	return 0;
}

/* Such a file has a function of its own to read it, which nothing here needs. */
int simple_open(struct inode *inode, struct file *file)
{
	file->private_data = inode->i_private;
	return 0;
}

void seq_printf(struct seq_file *file, const char *format, ...)
{
	va_list of;

	va_start(of, format);
	file->count += vscnprintf(file->buf + file->count, file->size - file->count, format, of);
	va_end(of);
}

void schedlab_seq_puts(struct seq_file *file, const char *text)
{
	seq_printf(file, "%s", text);
}
ALSO(schedlab_seq_puts, seq_puts);
ALSO(schedlab_seq_puts, __seq_puts);

int seq_write(struct seq_file *file, const void *bytes, size_t count)
{
	seq_printf(file, "%.*s", (int)count, (const char *)bytes);
	return 0;
}

void seq_putc(struct seq_file *file, char one)
{
	seq_printf(file, "%c", one);
}

static size_t print_file(struct knob *knob, char *to, size_t bytes)
{
	static struct inode inode;
	struct file file = { .f_inode = &inode };
	struct seq_file out = { .buf = to, .size = bytes };

	inode.i_private = knob->private;
	printer = NULL;
	if (!knob->operations->open || knob->operations->open(&inode, &file) || !printer)
		return 0;
	out.private = knob->private;
	printer(&out, NULL);
	return out.count;
}

/* ---- listing and setting ---- */

/* Each knob as a line `NAME VALUE` in the board's data. */
s64 schedlab_list_knobs(void)
{
	char *to = (char *)board->data;
	size_t left = sizeof(board->data) - 1;
	int at;

	for (at = 0; at < count; at++) {
		struct knob *knob = &knobs[at];
		size_t used = scnprintf(to, left, "%s ", knob->name), more = left - used;
		loff_t from = 0;

		if (knob->number)
			more = scnprintf(to + used, more, "%llu",
					 knob->bytes == 4 ? *(u32 *)knob->number : *(u64 *)knob->number);
		else if (knob->sysctl && knob->sysctl->data && knob->sysctl->proc_handler)
			more = knob->sysctl->proc_handler(knob->sysctl, 0, to + used, &more, &from) ? 0 : more;
		else if (knob->operations && knob->operations->write)
			more = print_file(knob, to + used, more);
		else
			continue;
		if (!more)
			continue;
		used += more;
		if (to[used - 1] != '\n' && used < left)
			to[used++] = '\n';
		to += used;
		left -= used;
	}
	*to = 0;
	return to - (char *)board->data;
}

int schedlab_set_knob(const char *name, char *value)
{
	size_t bytes = strlen(value);
	loff_t from = 0;
	int at;

	for (at = 0; at < count; at++) {
		struct knob *knob = &knobs[at];
		u64 wanted;

		if (strcmp(knob->name, name))
			continue;
		if (knob->sysctl && knob->sysctl->data)
			return knob->sysctl->proc_handler(knob->sysctl, 1, value, &bytes, &from);
		if (knob->operations && knob->operations->write) {
			static struct inode inode;
			struct file file = { .f_inode = &inode };
			struct seq_file out = { .private = knob->private };
			ssize_t written;

			init_rwsem(&inode.i_rwsem);
			inode.i_private = knob->private;
			file.private_data = &out;
			written = knob->operations->write(&file, (const char __user *)value, bytes, &from);
			return written < 0 ? written : 0;
		}
		if (!knob->number)
			continue;
		if (kstrtou64(value, 0, &wanted) || (knob->bytes == 4 && wanted > U32_MAX))
			return -EINVAL;
		if (knob->bytes == 4)
			*(u32 *)knob->number = wanted;
		else
			*(u64 *)knob->number = wanted;
		return 0;
	}
	return -ENOENT;
}
