// Package checkout writes the files of a commit for a build to read, and
// protects the launcher of the build from hostile repositories.
//
// Trees and files of a repository are hostile data, and the launcher of a
// build has tokens and signers. So the launcher only fetches, which git does
// in its own process, and resolves the commit. A process in the [sandbox],
// without network, reads the objects and writes the files; it sees the
// objects of the repository and nothing else. It is not trusted: the launcher
// hashes the files, and continues only if they are the tree of the commit.
//
//	if code, ok := checkout.Serve(); ok { // first in main; instead of sandbox.Serve
//		os.Exit(code)
//	}
//	…
//	err := checkout.Checkout(ctx, mode, repo, commit, dir)
//
// The launcher itself reads the commit object, a tag and the release's
// configuration. Each is small, and verified by its ID before it is parsed.
//
// Other projects should not import this package: it changes without notice.
package checkout

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/waybill-release/waybill/pkg/backend/git"
	"github.com/waybill-release/waybill/pkg/produce/sandbox"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Checkout writes the files of c into dir, as [git.Repository.Checkout] does,
// and verifies that dir is then exactly the tree of c. In an isolated mode
// the sandbox does the work, and dir is created after verification, on the
// file system of its parent, which must exist. Unisolated, this process does
// the work. dir must be empty or absent; after an error in unisolated mode it
// may be incomplete.
func Checkout(ctx context.Context, mode sandbox.Mode, repo *git.Repository, c git.Commit, dir string) error {
	asked := c
	c, err := repo.Confirm(ctx, c)
	if err != nil {
		return err
	}
	if mode == sandbox.Unisolated {
		if err := repo.Checkout(ctx, asked, dir); err != nil {
			return err
		}
		return git.CheckTree(ctx, dir, c)
	}
	if err := vacant(dir); err != nil {
		return err
	}
	scratch, err := os.MkdirTemp(filepath.Dir(dir), ".source-")
	if err != nil {
		return diskError(dir, err)
	}
	defer sandbox.Remove(ctx, scratch) //nolint:errcheck // no later step reads the leftovers
	if err := sandbox.Prepare(scratch); err != nil {
		return diskError(dir, err)
	}
	if err := read(ctx, mode, repo, c, scratch); err != nil {
		return err
	}
	out := filepath.Join(scratch, "out")
	if err := takeOwnership(out); err != nil {
		return diskError(dir, err)
	}
	if err := git.CheckTree(ctx, out, c); err != nil {
		return err
	}
	if err := os.Remove(dir); err != nil && !errors.Is(err, os.ErrNotExist) {
		return diskError(dir, err)
	}
	if err := os.Rename(out, dir); err != nil {
		return diskError(dir, err)
	}
	return nil
}

// vacant refuses a directory that exists and is not empty.
func vacant(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return diskError(dir, err)
	}
	if len(entries) > 0 {
		return &verdict.UsageError{Err: fmt.Errorf("checking out: directory %q is not empty", dir)}
	}
	return nil
}

func diskError(dir string, err error) error {
	return &verdict.UnavailableError{Place: dir, Op: "checking out", Err: err}
}

// How the reader gets its instructions.
const (
	readerPath  = "/build/waybill-source-reader"
	readerArg   = "-test.run=^$" // a test binary that does not call Serve runs nothing
	commitEnv   = "WAYBILL_SOURCE_COMMIT"
	objectsPath = "/build/objects"
	finished    = "the source is written"
)

// maxProcesses is plenty for the reader and its git.
const maxProcesses = 256

// read lets the reader write c into scratch.
func read(ctx context.Context, mode sandbox.Mode, repo *git.Repository, c git.Commit, scratch string) error {
	objects, err := repo.Objects()
	if err != nil {
		return err
	}
	if err := checkReadable(mode, repo, objects); err != nil {
		return err
	}
	program, err := os.Executable()
	if err != nil {
		return &sandbox.ModeError{Mode: mode, Reason: err.Error()}
	}
	said, err := json.Marshal(c)
	if err != nil {
		return err
	}
	mounts, path := sandbox.Toolchains(os.Getenv("PATH"), []string{"git"})
	at, log := sandbox.Seen(mode, scratch), sandbox.NewLog(nil, nil)
	_, err = sandbox.Run(ctx, mode, sandbox.Step{
		Scratch: scratch, Command: []string{readerPath, readerArg}, Log: log,
		Env:    []string{"PATH=" + path, "HOME=" + at.Home, "TMPDIR=" + at.Temp, "LC_ALL=C", "GOTRACEBACK=none", commitEnv + "=" + string(said)},
		Mounts: append(mounts, sandbox.Mount{Source: program, Target: readerPath}, sandbox.Mount{Source: objects, Target: objectsPath}),
		Limits: sandbox.Limits{Processes: maxProcesses},
	})
	if err != nil {
		return refusal(repo, c, err)
	}
	if !strings.HasSuffix(strings.TrimSpace(log.Tail()), finished) {
		return &sandbox.ModeError{Mode: mode, Reason: "this program does not call checkout.Serve first in main, so it has no reader"}
	}
	return nil
}

// checkReadable refuses objects that the reader's account cannot read, because the
// reader would report them as missing.
func checkReadable(mode sandbox.Mode, repo *git.Repository, objects string) error {
	if mode != sandbox.Isolated {
		return nil
	}
	for _, dir := range []string{objects, filepath.Join(objects, "pack")} {
		info, err := os.Stat(dir)
		if err == nil && info.Mode().Perm()&0o005 != 0o005 {
			return &verdict.UsageError{Err: fmt.Errorf("checking out %s: the account of the sandbox cannot read %q; run chmod -R go+rX on it, or build from another clone", repo.Name(), dir)}
		}
	}
	return nil
}

// takeOwnership changes the owner of files that another account has written. No
// process writes there any more, and no link is followed.
func takeOwnership(dir string) error {
	if os.Geteuid() != 0 {
		return nil // the reader's account was ours, or it returned ownership
	}
	return filepath.WalkDir(dir, func(p string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(p, os.Getuid(), os.Getgid())
	})
}

// codes are the reasons that a reader may give, by its exit status. The
// reader is not trusted, but it can only refuse.
func codes() []verdict.Code {
	return []verdict.Code{verdict.Path, verdict.FileType, verdict.Limit, verdict.Tampered, verdict.Missing}
}

// firstCode avoids the exit statuses that programs and shells use.
const firstCode = 40

// refusal interprets the reader's exit status.
func refusal(repo *git.Repository, c git.Commit, err error) error {
	var failed *sandbox.StepError
	if !errors.As(err, &failed) {
		return err
	}
	said := strings.TrimSpace(failed.Tail)
	said = said[strings.LastIndexByte(said, '\n')+1:]
	code := verdict.Code("")
	if i := failed.ExitCode - firstCode; i >= 0 && i < len(codes()) && said != "" {
		code = codes()[i]
	} else if failed.Code() == string(verdict.StepLimit) {
		code, said = verdict.Limit, failed.Err.Error()
	}
	if code != "" {
		return verdict.Coded(code, "checking out commit %s of %s: %s", c.Commit, repo.Name(), said)
	}
	return &verdict.UnavailableError{Place: repo.Name(), Op: "checking out", Err: failed}
}

// Serve runs the process as the runner of a step, as [sandbox.Serve] does, or
// as the reader of a source, if it was started as one. It returns the exit
// status.
func Serve() (code int, ok bool) {
	if code, ok := sandbox.Serve(); ok {
		return code, true
	}
	if os.Args[0] != readerPath {
		return 0, false
	}
	err := serve(context.Background())
	if err == nil {
		fmt.Println(finished)
		return 0, true
	}
	fmt.Println(strings.ReplaceAll(err.Error(), "\n", " "))
	if i := slices.Index(codes(), verdict.FindingOf("", err).Code); i >= 0 {
		return firstCode + i, true
	}
	return 1, true
}

// serve is the reader.
func serve(ctx context.Context) error {
	var c git.Commit
	d := json.NewDecoder(bytes.NewReader([]byte(os.Getenv(commitEnv))))
	if err := d.Decode(&c); err != nil {
		return fmt.Errorf("reading the commit to write: %w", err)
	}
	at := sandbox.Seen(sandbox.Isolated, "")
	dir := filepath.Join(at.Home, "repository")
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	repo, err := git.OpenObjects(objectsPath, dir, c)
	if err != nil {
		return err
	}
	return repo.Checkout(ctx, c, at.Out)
}
