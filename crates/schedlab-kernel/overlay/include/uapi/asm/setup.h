/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
#define COMMAND_LINE_SIZE 256
