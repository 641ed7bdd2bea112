package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// forge writes provenance of its own among the outputs.
func forge() error {
	if err := os.Mkdir(out("provenance"), 0o755); err != nil {
		return err
	}
	return write(out("provenance/evil.sigstore.json"))
}

// alterTools opens for writing what it may only read: tools of the system and
// of the release. Nothing is written, for this may run where it works.
func alterTools() error {
	program, err := filepath.EvalSymlinks("/bin/sh")
	if err != nil {
		return err
	}
	return all([]string{program, "/etc/passwd", "/usr", "/etc/ld.so.cache"}, func(name string) error {
		info, err := os.Stat(name)
		if err != nil {
			return err
		}
		if info.IsDir() {
			return syscall.Access(name, 2)
		}
		f, err := os.OpenFile(name, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		return f.Close()
	})
}

// writeAnywhere finds every directory that it can write to and that is not its
// own.
func writeAnywhere() error {
	own := []string{"/build/out", "/build/home", "/tmp", "/var/tmp", "/proc"}
	var found []string
	err := filepath.WalkDir("/", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return fs.SkipDir
		}
		for _, o := range own {
			if path == o {
				return fs.SkipDir
			}
		}
		if strings.Count(path, "/") > 3 && d.IsDir() {
			return fs.SkipDir
		}
		if d.IsDir() && write(filepath.Join(path, ".harm")) == nil {
			found = append(found, path)
		}
		return nil
	})
	if err != nil || len(found) == 0 {
		return fmt.Errorf("no directory of others takes a file (%w)", syscall.EROFS)
	}
	fmt.Println("worked:", found)
	return nil
}

func leaveHardLink() error {
	if err := write(output()); err != nil {
		return err
	}
	return os.Link(output(), out("other"))
}

func leaveFIFO() error { return syscall.Mkfifo(output(), 0o644) }

// leaveDevice makes the machine's first disk an output.
func leaveDevice() error { return syscall.Mknod(output(), syscall.S_IFBLK|0o644, 7<<8) }

func leaveSparse() error {
	f, err := os.Create(output())
	if err != nil {
		return err
	}
	if err := f.Truncate(1 << 30); err != nil {
		return err
	}
	return f.Close()
}

func leaveLocked() error {
	if err := write(output()); err != nil {
		return err
	}
	return os.Chmod(out("."), 0)
}

// writeEscapes tries to own the terminal of whoever reads the log.
func writeEscapes() error {
	fmt.Print("\x1b]0;owned\a\x1b[2J\x1b[1;1Hall is well\u202e\r\n\x9b31m\xff\n")
	return syscall.EPERM
}

// hideLines writes what it does between the marks of a private key.
func hideLines() error {
	fmt.Print("-----BEGIN EVIL PRIVATE KEY-----\nfetching what nobody shall read of\n-----END EVIL PRIVATE KEY-----\n")
	return syscall.EPERM
}

// leaveSetuid makes its output a program that runs as whoever owns it.
func leaveSetuid() error {
	if err := write(output()); err != nil {
		return err
	}
	return os.Chmod(output(), 0o777|os.ModeSetuid|os.ModeSetgid)
}

func appendTo(name string) error {
	f, err := os.OpenFile(name, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString("all is well\n")
	return errors.Join(err, f.Close())
}

// hideOnDisk writes files of mebibytes that it removes and keeps open, and stays
// long enough to be looked at.
func hideOnDisk(files, size int) error {
	block := make([]byte, 1<<20)
	var open []*os.File
	defer func() {
		for _, f := range open {
			_ = f.Close()
		}
	}()
	for i := range files {
		name := filepath.Join("..", "home", fmt.Sprint(i))
		f, err := os.Create(name)
		if err != nil {
			return err
		}
		open = append(open, f)
		for range size {
			if _, err := f.Write(block); err != nil {
				return fmt.Errorf("in file %d: %w", i, err)
			}
		}
		if err := os.Remove(name); err != nil {
			return err
		}
	}
	time.Sleep(1500 * time.Millisecond)
	fmt.Printf("worked: %d MiB without a name\n", files*size)
	return nil
}

// bury leaves directories in each other, more than a path or a table of open
// files has room for.
func bury(dir string, depth int) error {
	here, err := os.Open(".")
	if err != nil {
		return err
	}
	defer here.Close()
	if err := os.Chdir(dir); err != nil {
		return err
	}
	for range depth {
		if err := errors.Join(syscall.Mkdir("a", 0o700), syscall.Chdir("a")); err != nil {
			return err
		}
	}
	return here.Chdir()
}
