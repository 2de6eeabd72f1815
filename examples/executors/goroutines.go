// Goroutines under schedlab's rig, over JSON lines on stdin and stdout (docs/executors.md).
//
//	schedlab jobs compare --executor 'schedlab,cmd:go run examples/executors/goroutines.go' --shape fork-join
//
// Goroutines have no numbers, so a job takes one of as many places as there are workers. They move between threads, so
// the answer has no thread ids.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

type line struct {
	Schema  string   `json:"schema"`
	Workers int      `json:"workers"`
	Jobs    int      `json:"jobs"`
	Nonce   string   `json:"nonce"`
	Job     int      `json:"job"`
	Rounds  uint64   `json:"rounds"`
	After   []uint32 `json:"after"`
	Start   int64    `json:"start_ns"`
	Latest  *int64   `json:"deadline_ns"`
	Base    int64    `json:"base_ns"`
	Go      bool     `json:"go"`
}

type job struct {
	rounds     uint64
	start      int64
	latest     *int64
	after      []uint32
	successors []uint32
	waits      atomic.Int32
	worker     int
	begin, end int64
	value      uint64
	dropped    string
}

func mix(value uint64) uint64 {
	return (value ^ (value >> 32)) * 0xd6e8feb86659fd93
}

// CLOCK_MONOTONIC, as the protocol asks for.
func now() int64 {
	var at syscall.Timespec
	syscall.Syscall(syscall.SYS_CLOCK_GETTIME, 1, uintptr(unsafe.Pointer(&at)), 0)
	return at.Nano()
}

// Why a job that begins now must not run: its deadline, or a job that it waits for and that was dropped.
func unfit(jobs []job, one *job, base int64) string {
	for _, before := range one.after {
		if jobs[before].dropped != "" {
			return "abandoned"
		}
	}
	if one.latest != nil && one.begin > base+*one.latest {
		return "missed"
	}
	return ""
}

func work(jobs []job, nonce uint64, number uint32) uint64 {
	value := mix(nonce ^ uint64(number+1))
	for _, before := range jobs[number].after {
		value = mix(value ^ jobs[before].value)
	}
	for round := uint64(0); round < jobs[number].rounds; round++ {
		value = mix(value)
	}
	return value
}

func main() {
	input := json.NewDecoder(bufio.NewReader(os.Stdin))
	var head line
	if err := input.Decode(&head); err != nil ||
		head.Schema != "schedlab/jobs-lines/3" && head.Schema != "schedlab/jobs-lines/4" {
		fmt.Fprintln(os.Stderr, "unknown version of the lines:", head.Schema, err)
		os.Exit(1)
	}
	nonce, _ := strconv.ParseUint(head.Nonce, 16, 64)
	jobs := make([]job, head.Jobs)
	var base int64
	for {
		var order line
		if err := input.Decode(&order); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		if order.Go {
			base = order.Base
			break
		}
		one := &jobs[order.Job]
		one.rounds, one.after = order.Rounds, order.After
		one.start, one.latest = order.Start, order.Latest
		one.waits.Store(int32(len(order.After)))
		for _, before := range order.After {
			jobs[before].successors = append(jobs[before].successors, uint32(order.Job))
		}
	}

	runtime.GOMAXPROCS(head.Workers)
	places := make(chan int, head.Workers)
	for worker := 0; worker < head.Workers; worker++ {
		places <- worker
	}
	ended := make(chan struct{}, head.Jobs)
	var start func(number uint32)
	start = func(number uint32) {
		one := &jobs[number]
		for left := base + one.start - now(); base > 0 && left > 0; left = base + one.start - now() {
			time.Sleep(time.Duration(left))
		}
		one.worker = <-places
		one.begin = now()
		one.dropped = unfit(jobs, one, base)
		if one.dropped == "" {
			one.value = work(jobs, nonce, number)
		}
		one.end = now()
		places <- one.worker
		for _, successor := range one.successors {
			if jobs[successor].waits.Add(-1) == 0 {
				go start(successor)
			}
		}
		ended <- struct{}{}
	}
	for number := range jobs {
		if len(jobs[number].after) == 0 {
			go start(uint32(number))
		}
	}
	for range jobs {
		<-ended
	}
	output := bufio.NewWriter(os.Stdout)
	for number := range jobs {
		one := &jobs[number]
		if one.dropped != "" {
			fmt.Fprintf(output, "{\"job\":%d,\"dropped\":\"%s\",\"at_ns\":%d}\n", number, one.dropped, one.begin)
			continue
		}
		fmt.Fprintf(output, "{\"job\":%d,\"worker\":%d,\"begin_ns\":%d,\"end_ns\":%d,\"value\":\"%016x\"}\n",
			number, one.worker, one.begin, one.end, one.value)
	}
	fmt.Fprintln(output, "{\"done\":true}")
	output.Flush()
}
