//go:build simulate

package simulate

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"os"
	"reflect"
	"runtime"
	"runtime/debug"
	"syscall"
	"unsafe"
)

// Repeats reports whether the same seed makes the same run in this build.
const Repeats = true

func thread() uintptr

//go:linkname retake runtime.retake
func retake(now int64) uint32

//go:linkname cheaprand runtime.cheaprand
func cheaprand() uint32

//go:linkname mutexTime internal/sync.runtime_nanotime
func mutexTime() int64

// instead of [os.File.Sync], of the function that takes the processor from a goroutine
// which has it for long, or is in a system call for long, and of the clock by which a
// mutex prefers those that wait for long.
var (
	instead      = func(f *os.File) error { return syncing(f) }
	insteadNever = func(int64) uint32 { return 0 }
	insteadZero  = func() int64 { return 0 }
)

// choices are where a thread has its sources of random numbers, which decide the order
// of maps and of cases in a select.
var choices uintptr

// Prepare makes syncs known, and goroutines take turns as the seed says. The caller uses
// one processor.
func Prepare() error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	words := unsafe.Slice((*uint64)(unsafe.Pointer(thread())), 250) //nolint:govet // it does not move
	before := append([]uint64{}, words...)
	_ = cheaprand()
	for i, word := range words {
		if word-before[i] == 0xa0761d6478bd642f { // what a number adds to it
			choices = uintptr(i) * 8
		}
	}
	if choices == 0 {
		return errors.New("simulate: this version of Go has its random numbers elsewhere")
	}
	return errors.Join(
		replace(reflect.ValueOf((*os.File).Sync).Pointer(), unsafe.Pointer(&instead)),
		replace(reflect.ValueOf(retake).Pointer(), unsafe.Pointer(&insteadNever)),
		replace(reflect.ValueOf(mutexTime).Pointer(), unsafe.Pointer(&insteadZero)),
	)
}

// replace writes a jump to a function over the first instructions of another.
func replace(at uintptr, by unsafe.Pointer) error {
	jump := binary.LittleEndian.AppendUint64([]byte{0x48, 0xba}, *(*uint64)(by)) // MOVQ by, DX
	jump = append(jump, 0xff, 0x22)                                              // JMP (DX)
	first := at &^ uintptr(os.Getpagesize()-1)
	pages := unsafe.Slice((*byte)(unsafe.Pointer(first)), at+uintptr(len(jump))-first) //nolint:govet // code, which does not move
	if err := syscall.Mprotect(pages, syscall.PROT_READ|syscall.PROT_WRITE|syscall.PROT_EXEC); err != nil {
		return err
	}
	copy(pages[at-first:], jump)
	return nil
}

// choose makes this thread choose as the dice say.
func choose(dice *rand.Rand) {
	m := thread()
	*(*uint64)(unsafe.Pointer(m + choices)) = dice.Uint64() //nolint:govet // it does not move
	state := (*struct {                                     // of ChaCha8: it refills its buffer from the seed
		_       [32]uint64
		seed    [4]uint64
		i, n, c uint32
	})(unsafe.Pointer(m + choices - 304)) //nolint:govet // it does not move
	for i := range state.seed {
		state.seed[i] = dice.Uint64()
	}
	state.i, state.n, state.c = 0, 0, 0
}

// collect collects garbage between runs: within one it could change who is next.
func collect() {
	debug.SetGCPercent(-1)
	debug.SetMemoryLimit(3 << 30) // but not at any price
	var now runtime.MemStats
	if runtime.ReadMemStats(&now); now.HeapAlloc > 1<<28 {
		runtime.GC()
	}
}
