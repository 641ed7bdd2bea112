package lock

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/mod/sumdb/dirhash"

	"github.com/waybill-release/waybill/pkg/backend/transport"
	"github.com/waybill-release/waybill/pkg/produce/sandbox"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Host is the platform of this machine.
const Host = runtime.GOOS + "/" + runtime.GOARCH

// toolchainModule is the Go module of which each toolchain is a version.
const toolchainModule = "golang.org/toolchain"

// toolchainVersion is the version of a toolchain's module for a platform.
func toolchainVersion(version, platform string) string {
	return "v0.0.1-" + version + "." + strings.Replace(platform, "/", "-", 1)
}

// Check refuses a program of this machine, with the digest of its file, that is
// not the pinned one. Of a
// toolchain it hashes all files but those of api, doc, misc and test, which are
// not part of its module: names and content, not modes. In go.env the line
// GOTOOLCHAIN=local counts as GOTOOLCHAIN=auto, as the module has it: a step
// gets local from its environment anyway.
func Check(name string, pin plan.ToolLock, program digest.Digest) error {
	want, got := pin.PinOn(Host), program.String()
	if want == "" {
		return verdict.Refuse(verdict.LockStale, plan.LockName, "tool %q: the lock does not pin it for this platform, %s", name, Host).
			Advise("run waybill lock --confirm on a machine of this platform, review the difference, and commit " + plan.LockName)
	}
	f := verdict.Find(verdict.LockStale, plan.LockName, "tool %q: the program in PATH is not the pinned one", name)
	if pin.Toolchain != "" {
		dir, version, err := toolchain(pin.Program)
		if err != nil {
			return err
		}
		f.Fix = "install " + pin.Toolchain + " from https://go.dev/dl, or run waybill lock, review the difference, and commit " + plan.LockName
		if version != pin.Toolchain {
			f.Message = fmt.Sprintf("tool %q: the Go in %s has another version than the pinned one", name, dir)
			return &verdict.Error{Finding: f.Differ(pin.Toolchain, version)}
		}
		if got, err = checksum(dir, version, Host); err != nil {
			return err
		}
		f.Message = fmt.Sprintf("tool %q: the files in %s are not those of %s", name, dir, version)
	}
	if got != want {
		return &verdict.Error{Finding: f.Differ(want, got)}
	}
	return nil
}

// toolchain finds the directory of the Go toolchain in PATH, and its version. A
// program that is not in its bin may be in a directory without a checksum.
func toolchain(program string) (dir, version string, err error) {
	mounts, _ := sandbox.Toolchains(os.Getenv("PATH"), []string{program})
	at, err := exec.LookPath(program)
	if err == nil {
		at, err = filepath.EvalSymlinks(at)
	}
	for _, m := range mounts {
		raw, err2 := os.ReadFile(filepath.Join(m.Source, "VERSION"))
		if version, _, _ = strings.Cut(string(raw), "\n"); errors.Join(err, err2) == nil && filepath.Dir(at) == filepath.Join(m.Source, "bin") && strings.HasPrefix(version, "go") {
			return m.Source, version, nil
		}
	}
	return "", "", verdict.Refuse(verdict.Usage, program, "the program in PATH is not in the directory of a released Go toolchain, so no checksum can pin it").
		Advise("install Go from https://go.dev/dl")
}

// checksum hashes a toolchain as go.sum does its module.
func checksum(dir, version, platform string) (string, error) {
	prefix := toolchainModule + "@" + toolchainVersion(version, platform) + "/"
	from := map[string]string{}
	err := filepath.WalkDir(dir, func(file string, d fs.DirEntry, err error) error {
		if err != nil || file == dir {
			return err
		}
		rel, err := filepath.Rel(dir, file)
		name := filepath.ToSlash(rel)
		switch {
		case err != nil:
			return err
		case d.IsDir() && slices.Contains([]string{"api", "doc", "misc", "test"}, name):
			return fs.SkipDir
		case d.IsDir():
			return nil
		case !d.Type().IsRegular():
			return verdict.Refuse(verdict.LockStale, file, "a toolchain has regular files only").Advise("install " + version + " again from https://go.dev/dl")
		}
		// The module has go.mod under another name. Where the go command has
		// downloaded the toolchain there are both, and go.mod is the one used.
		if path.Base(name) == "_go.mod" && isFile(filepath.Join(filepath.Dir(file), "go.mod")) {
			return nil
		}
		if path.Base(name) == "go.mod" {
			name = path.Join(path.Dir(name), "_go.mod")
		}
		from[prefix+name] = file
		return nil
	})
	if err != nil {
		return "", fmt.Errorf("hashing the toolchain: %w", err)
	}
	return dirhash.Hash1(slices.Collect(maps.Keys(from)), func(name string) (io.ReadCloser, error) {
		if name != prefix+"go.env" {
			return os.Open(from[name])
		}
		raw, err := os.ReadFile(from[name])
		raw = bytes.Replace(raw, []byte("\nGOTOOLCHAIN=local\n"), []byte("\nGOTOOLCHAIN=auto\n"), 1)
		return io.NopCloser(bytes.NewReader(raw)), err
	})
}

func isFile(name string) bool {
	info, err := os.Lstat(name)
	return err == nil && info.Mode().IsRegular()
}

// download computes the digest of the file at an address. The file is not
// stored: the build downloads it again and verifies it.
func (r Request) download(ctx context.Context, address string) (plan.DownloadLock, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return plan.DownloadLock{}, verdict.Wrap(verdict.ConfigParse, address, err)
	}
	// The digest is of the stored bytes, not of a transfer encoding.
	req.Header.Set("Accept-Encoding", "identity")
	resp, err := transport.Client(r.Transport).Do(req)
	if err != nil {
		return plan.DownloadLock{}, unreachable(address, err)
	}
	defer resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusOK:
	case http.StatusNotFound, http.StatusGone:
		return plan.DownloadLock{}, verdict.Refuse(verdict.Usage, address, "the server has no such file (%s); correct it in %s", resp.Status, plan.ConfigName)
	default:
		return plan.DownloadLock{}, unreachable(address, fmt.Errorf("the server answered %s", resp.Status))
	}
	if resp.ContentLength > plan.MaxDownload {
		return plan.DownloadLock{}, tooLarge(address)
	}
	sum, size, err := digest.SumSHA256(io.LimitReader(resp.Body, plan.MaxDownload+1))
	switch {
	case err != nil:
		return plan.DownloadLock{}, unreachable(address, err)
	case size > plan.MaxDownload:
		return plan.DownloadLock{}, tooLarge(address)
	case size == 0:
		return plan.DownloadLock{}, verdict.Refuse(verdict.Usage, address, "the file is empty; correct it in %s", plan.ConfigName)
	}
	return plan.DownloadLock{URL: address, Size: size, Digest: sum}, nil
}

// unreachable separates errors that a retry cannot fix, like a forbidden
// redirect or an invalid address, from an unreachable server.
func unreachable(address string, err error) error {
	if _, is := errors.AsType[*verdict.UsageError](err); is {
		return err
	}
	if stray, is := errors.AsType[*transport.RedirectError](err); is {
		return &verdict.Error{Finding: verdict.Find(verdict.Usage, address, "%v; use the address to which it redirects", stray), Cause: err}
	}
	return &verdict.UnavailableError{Place: address, Op: "fetching", Err: err}
}

func tooLarge(address string) error {
	return verdict.Refuse(verdict.Limit, address, "more than %d bytes; use a smaller file", int64(plan.MaxDownload))
}
