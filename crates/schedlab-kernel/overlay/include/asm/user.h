/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
#ifndef _ASM_USER_H
#define _ASM_USER_H

struct user {
	int unused;
};

#endif
