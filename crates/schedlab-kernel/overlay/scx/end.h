/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* What follows the text of a scheduler: its table of operations as the image registers it. */
#include "scheduler.h"

static typeof(SCHEDLAB_OPS) *const schedlab_own_ops = &SCHEDLAB_OPS;

static void schedlab_exit(struct scx_exit_info *info)
{
	if (schedlab_own_ops->exit)
		schedlab_own_ops->exit(info);
	schedlab_scheduler_ends(schedlab_own_ops->name, info->reason);
}

static s32 schedlab_init(void)
{
	s32 result = 0;

	schedlab_bind(true);
	if (schedlab_own_ops->init)
		result = schedlab_own_ops->init();
	schedlab_bind(false);
	return result;
}

static typeof(SCHEDLAB_OPS) schedlab_registered_ops;

static void schedlab_prepare(void)
{
	schedlab_registered_ops = *schedlab_own_ops;
	schedlab_registered_ops.exit = schedlab_exit;
	schedlab_registered_ops.init = schedlab_init;
}

const struct schedlab_scheduler schedlab_scheduler = {
	.ops = &schedlab_registered_ops,
	.bytes = sizeof(schedlab_registered_ops),
	.prepare = schedlab_prepare,
	.maps = schedlab_maps,
};
