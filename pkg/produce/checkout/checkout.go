// Package checkout writes the files of a commit where a build will read them,
// without letting a hostile repository near whoever builds.
//
// Trees and files of a repository are hostile data, and the launcher of a build
// holds tokens and signers. So the launcher fetches, which git does in a process
// of its own, and knows the commit; reading the objects and writing the files is
// work for a process behind the walls of [sandbox], with no network, that sees
// the objects of the repository and nothing else of it. What that process says
// is not believed: the launcher hashes what it left, and goes on only if that is
// the tree of the commit.
//
//	if code, ok := checkout.Serve(); ok { // first in main; in place of sandbox.Serve
//		os.Exit(code)
//	}
//	…
//	err := checkout.Checkout(ctx, mode, repo, commit, dir)
//
// What stays with the launcher: the commit object, a tag and the release's
// configuration, each small, and proven by its id before it is read.
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
)

// Checkout writes the files of c into dir, as [git.Repository.Checkout] does, and makes
// sure that dir is then exactly the tree of c. With walls it is done behind
// them; dir comes to be when all is proven, and is on the file system of its
// parent, which must be there. Unisolated it is done by this process. dir must
// be empty or absent; on error without walls it may hold a part.
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
		return disk(dir, err)
	}
	defer sandbox.Remove(ctx, scratch) //nolint:errcheck // what is left is nobody's input
	if err := sandbox.Prepare(scratch); err != nil {
		return disk(dir, err)
	}
	if err := read(ctx, mode, repo, c, scratch); err != nil {
		return err
	}
	out := filepath.Join(scratch, "out")
	if err := take(out); err != nil {
		return disk(dir, err)
	}
	if err := git.CheckTree(ctx, out, c); err != nil {
		return err
	}
	if err := os.Remove(dir); err != nil && !errors.Is(err, os.ErrNotExist) {
		return disk(dir, err)
	}
	if err := os.Rename(out, dir); err != nil {
		return disk(dir, err)
	}
	return nil
}

// vacant makes way for a directory: none or an empty one may be there.
func vacant(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return disk(dir, err)
	}
	if len(entries) > 0 {
		return &git.UsageError{Err: fmt.Errorf("checking out: directory %q is not empty", dir)}
	}
	return nil
}

func disk(dir string, err error) error {
	return &git.UnavailableError{Place: dir, Op: "checking out", Err: err}
}

// How the reader is told what to do, and where it finds it.
const (
	readerPath  = "/build/waybill-source-reader"
	readerArg   = "-test.run=^$" // a test binary that does not call Serve runs nothing
	commitEnv   = "WAYBILL_SOURCE_COMMIT"
	objectsPath = "/build/objects"
	finished    = "the source is written"
)

// maxProcesses is plenty for the reader and its git.
const maxProcesses = 256

// read has the reader write c into scratch.
func read(ctx context.Context, mode sandbox.Mode, repo *git.Repository, c git.Commit, scratch string) error {
	objects, err := repo.Objects()
	if err != nil {
		return err
	}
	if err := open(mode, repo, objects); err != nil {
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
		return &sandbox.ModeError{Mode: mode, Reason: "this program does not call source.Serve first in main, so it has no reader"}
	}
	return nil
}

// open refuses objects that the reader's account could not read, before it
// would take them for missing.
func open(mode sandbox.Mode, repo *git.Repository, objects string) error {
	if mode != sandbox.Isolated {
		return nil
	}
	for _, dir := range []string{objects, filepath.Join(objects, "pack")} {
		info, err := os.Stat(dir)
		if err == nil && info.Mode().Perm()&0o005 != 0o005 {
			return &git.UsageError{Err: fmt.Errorf("checking out %s: %q is closed to the account that reads it; run chmod -R go+rX on it, or build from another clone", repo.Name(), dir)}
		}
	}
	return nil
}

// take gives to this process what another account has written. Nobody writes
// there any more, and nothing is followed.
func take(dir string) error {
	if os.Geteuid() != 0 {
		return nil // it is ours already: the account of the reader was, or gave it back
	}
	return filepath.WalkDir(dir, func(p string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(p, os.Getuid(), os.Getgid())
	})
}

// codes are the reasons that a reader may give, by what it ends with. It is not
// believed, so it can only say no.
func codes() []string {
	return []string{"PATH", "FILE_TYPE", "LIMIT", "TAMPERED", "MISSING"}
}

// firstCode keeps away from what programs and shells end with by themselves.
const firstCode = 40

// RefusedError reports a commit that the reader refused to write.
type RefusedError struct {
	Repository string
	Commit     string
	Reason     string
	code       string
}

// Error says what the reader said.
func (e *RefusedError) Error() string {
	return fmt.Sprintf("checking out commit %s of %s: %s", e.Commit, e.Repository, e.Reason)
}

// Code is the reason code of the refusal.
func (e *RefusedError) Code() string { return e.code }

// refusal is what the reader meant.
func refusal(repo *git.Repository, c git.Commit, err error) error {
	var failed *sandbox.StepError
	if !errors.As(err, &failed) {
		return err
	}
	said := strings.TrimSpace(failed.Tail)
	said = said[strings.LastIndexByte(said, '\n')+1:]
	if i := failed.ExitCode - firstCode; i >= 0 && i < len(codes()) && said != "" {
		return &RefusedError{Repository: repo.Name(), Commit: c.Commit, Reason: said, code: codes()[i]}
	}
	if failed.Code() == "STEP_LIMIT" {
		return &RefusedError{Repository: repo.Name(), Commit: c.Commit, Reason: failed.Err.Error(), code: "LIMIT"}
	}
	return &git.UnavailableError{Place: repo.Name(), Op: "checking out", Err: failed}
}

// Serve makes this process what it was started as, if it was: the runner of a
// step, as [sandbox.Serve] does, or the reader of a source. It returns what to
// end the process with.
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
	var coded interface{ Code() string }
	if errors.As(err, &coded) {
		if i := slices.Index(codes(), coded.Code()); i >= 0 {
			return firstCode + i, true
		}
	}
	return 1, true
}

// serve is the reader.
func serve(ctx context.Context) error {
	var c git.Commit
	d := json.NewDecoder(bytes.NewReader([]byte(os.Getenv(commitEnv))))
	if err := d.Decode(&c); err != nil {
		return fmt.Errorf("reading what to write: %w", err)
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
