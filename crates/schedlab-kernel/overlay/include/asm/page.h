/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
#ifndef _ASM_PAGE_H
#define _ASM_PAGE_H

#include <linux/const.h>

#if __has_include(<vdso/page.h>)
#include <vdso/page.h>
#else
#define PAGE_SHIFT 12
#define PAGE_SIZE (_AC(1, UL) << PAGE_SHIFT)
#define PAGE_MASK (~(PAGE_SIZE - 1))
#endif
#define PAGE_OFFSET 0UL

#ifndef __ASSEMBLY__

/* No simulated task has memory of its own: these exist for declarations alone. */
typedef struct { unsigned long of; } pte_t;
typedef struct { unsigned long of[16]; } pmd_t;
typedef struct { unsigned long of; } pgd_t;
typedef struct { unsigned long of; } pgprot_t;
typedef struct page *pgtable_t;

#define pte_val(entry) ((entry).of)
#define pmd_val(entry) ((&entry)->of[0])
#define pgd_val(entry) ((entry).of)
#define pgprot_val(entry) ((entry).of)
#define __pte(value) ((pte_t) { (value) })
#define __pmd(value) ((pmd_t) { { (value) } })
#define __pgd(value) ((pgd_t) { (value) })
#define __pgprot(value) ((pgprot_t) { (value) })

#define clear_page(page) memset(page, 0, PAGE_SIZE)
#define copy_page(to, from) memcpy(to, from, PAGE_SIZE)
#define clear_user_page(page, address, of) clear_page(page)
#define copy_user_page(to, from, address, of) copy_page(to, from)

#define __pa(address) ((unsigned long)(address))
#define __va(address) ((void *)(unsigned long)(address))
#define virt_to_pfn(address) (__pa(address) >> PAGE_SHIFT)
#define pfn_to_virt(frame) __va((unsigned long)(frame) << PAGE_SHIFT)
#define virt_to_page(address) pfn_to_page(virt_to_pfn(address))
#define page_to_virt(page) pfn_to_virt(page_to_pfn(page))
#define virt_addr_valid(address) ((address) != NULL)

extern unsigned long memory_start, memory_end;

#endif

#include <asm-generic/memory_model.h>
#include <asm-generic/getorder.h>

#ifndef page_to_phys
#define page_to_phys(page) ((phys_addr_t)page_to_pfn(page) << PAGE_SHIFT)
#endif

#endif
