package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// caches are where programs keep what they would use again: those of Go below
// the home, and what all accounts share.
func caches() []string {
	home := os.Getenv("HOME")
	return []string{
		filepath.Join(home, ".cache", "go-build"), filepath.Join(home, "go", "pkg", "mod"), filepath.Join(home, ".config", "go"),
		os.Getenv("TMPDIR"), "/tmp", "/var/tmp", "/dev/shm", os.Getenv("CACHE"), "/build/in", "/build/modules", "/build/src",
	}
}

const poisoned = "poison-of-another-step"

// poison leaves something in every cache that it can write to. It does no
// harm to its own output.
func poison() error {
	for _, dir := range caches() {
		if os.MkdirAll(dir, 0o777) == nil {
			_ = write(filepath.Join(dir, poisoned)) // those that can be
		}
	}
	return nil
}

// findPoison is the next step.
func findPoison() error {
	return all(caches(), func(dir string) error { return readFile(filepath.Join(dir, poisoned)) })
}

// meet looks for a step that runs at the same time and looks for it: by files,
// sockets, processes and the directories of its work.
func meet() error {
	me, other, id := os.Getenv("ME"), os.Getenv("OTHER"), filepath.Base(filepath.Dir(os.Getenv("STATE")))
	name := func(who string) string { return "waybill-meet-" + id + "-" + who }
	l, err := net.Listen("unix", "@"+name(me))
	if err != nil {
		return err
	}
	defer l.Close()
	places := []string{"/tmp", "/var/tmp", "/dev/shm", os.Getenv("CACHE"), "/build/home", "/build/out"}
	for _, dir := range places {
		_ = write(filepath.Join(dir, name(me))) // those that can be
	}
	var saw error
	for end := time.Now().Add(2 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if saw = look(name(other), other, places); saw == nil {
			return nil
		}
	}
	return fmt.Errorf("met nobody: %w", saw)
}

func look(name, other string, places []string) error {
	if err := dial("unix", "@"+name); err == nil {
		return nil
	}
	for _, dir := range places {
		if readFile(filepath.Join(dir, name)) == nil {
			return nil
		}
	}
	processes, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, p := range processes {
		if raw, err := os.ReadFile(p); err == nil && strings.Contains(string(raw), "\x00ME="+other+"\x00") {
			return nil
		}
	}
	for _, kind := range []string{"work/" + other + "-*", "logs/" + other + ".log"} {
		if found, _ := filepath.Glob(filepath.Join(os.Getenv("STATE"), kind)); len(found) > 0 {
			return nil
		}
	}
	return errors.New("no socket, file, process or directory of another step")
}
