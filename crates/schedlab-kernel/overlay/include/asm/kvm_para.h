/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
#include <asm-generic/kvm_para.h>
