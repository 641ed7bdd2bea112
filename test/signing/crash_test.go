package signing

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/waybill-release/waybill/pkg/backend/journal"
	"github.com/waybill-release/waybill/pkg/document/intoto"
	builtby "github.com/waybill-release/waybill/pkg/document/provenance"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/produce/sign"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/test/lab"
)

type verifyEvidence = verify.Evidence

// provenance is a statement that the release role may not sign.
func provenance(t testing.TB) intoto.Statement {
	t.Helper()
	st, err := intoto.New(builtby.PredicateType, []intoto.Subject{{Name: "a", Digests: file(1)}}, struct{}{})
	if err != nil {
		t.Fatal(err)
	}
	return st
}

// The test binary is its own child, when it finds this in its environment.
const childOf = "WAYBILL_SIGNING_CHILD"

// order is what a child is to do.
type childOrder struct {
	Lab     lab.URLs
	Root    []byte
	Config  []byte
	Token   string
	Journal string
	Bundles string // directory; a bundle that is there is not signed again
	Files   int
	// At is the request at which the child is killed, before it is sent or
	// after it was answered; 0: at none.
	At    int
	After bool
}

// child signs files as a release would, and is killed on the way.
func child() int {
	var o childOrder
	if err := json.Unmarshal([]byte(os.Getenv(childOf)), &o); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	if err := o.run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func (o childOrder) run(ctx context.Context) error {
	t := &inChild{}
	w := worldOf(t, &lab.Lab{URLs: o.Lab, TrustedRoot: o.Root, SigningConfig: o.Config})
	w.token = o.Token
	m := w.meddler(func(c call) (*http.Response, error) {
		if c.number == o.At && !o.After {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		}
		r, err := c.pass()
		if c.number == o.At {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		}
		return r, err
	})
	s := w.signer(t, m, keeping(t, o.Journal), func(c *sign.Config) { c.Work.Workers = 1 })
	for i := range o.Files {
		path := filepath.Join(o.Bundles, strconv.Itoa(i))
		if raw, err := os.ReadFile(path); err == nil {
			if _, err := w.verifier.Blob(raw, file(i)); err == nil {
				continue
			}
		}
		bundle, _, err := s.Blob(ctx, file(i))
		if err != nil {
			return err
		}
		if err := os.WriteFile(path, bundle, 0o600); err != nil {
			return err
		}
	}
	fmt.Println(m.all)
	return nil
}

// inChild is as much of a test as helpers need.
type inChild struct{ testing.TB }

func (*inChild) Helper()        {}
func (*inChild) Cleanup(func()) {} // the process ends
func (*inChild) Fatal(args ...any) {
	fmt.Fprintln(os.Stderr, args...)
	os.Exit(3)
}

// spawn runs a child to its end.
func (o childOrder) spawn(t *testing.T) (output string, killed bool) {
	t.Helper()
	raw, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), childOf+"="+string(raw))
	out, err := cmd.CombinedOutput()
	var ended *exec.ExitError
	if errors.As(err, &ended) {
		status, ok := ended.Sys().(syscall.WaitStatus)
		if ok && status.Signaled() && status.Signal() == syscall.SIGKILL {
			return "", true
		}
	}
	if err != nil {
		t.Fatalf("child: %v\n%s", err, out)
	}
	return strings.TrimSpace(string(out)), false
}

func (w *world) order(t *testing.T, files int) childOrder {
	return childOrder{
		Lab: w.URLs, Root: w.TrustedRoot, Config: w.SigningConfig, Token: w.token,
		Journal: journalIn(t), Bundles: t.TempDir(), Files: files,
	}
}

// TestKilledAtEveryRequest: a process that is killed before or after any of
// its requests is started again, and signs what is missing. A log that
// remembers never has two entries of one file.
func TestKilledAtEveryRequest(t *testing.T) {
	const files = 3
	for at := 1; at <= 1+2*files; at++ {
		for _, after := range []bool{false, true} {
			w := newWorld(t)
			o := w.order(t, files)
			o.At, o.After = at, after
			if _, killed := o.spawn(t); !killed {
				t.Fatalf("request %d: the child was not killed", at)
			}
			o.At = 0
			o.spawn(t)
			if got := len(w.Logged()); got != files || w.twins() != 0 {
				t.Errorf("killed at request %d, after %t: %d entries for %d files", at, after, got, files)
			}
			if again, _ := o.spawn(t); again != "0" {
				t.Errorf("killed at request %d, after %t: %s requests when all was done", at, after, again)
			}
		}
	}
}

// signAll signs orders with what a journal has, and gives it back.
func (w *world) signAll(t *testing.T, through http.RoundTripper, path string, list []sign.Order) (sign.Tally, error) {
	t.Helper()
	j, err := journal.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	kept, err := sign.Keep(j)
	if err != nil {
		t.Fatal(err)
	}
	s := w.signer(t, through, func(c *sign.Config) { c.Work.Kept, c.Work.Workers = kept, 1 })
	_, keep := gather(t)
	err = s.Each(t.Context(), list, keep)
	return s.Tally(), err
}

// TestLostAnswers: each request to each service fails before or after the
// service acted, and the run ends there; the next one finishes it.
func TestLostAnswers(t *testing.T) {
	list := orders(t, 4)
	for at := 1; ; at++ {
		through := 0
		for _, after := range []bool{false, true} {
			w := newWorld(t)
			path := journalIn(t)
			m := w.meddler(func(c call) (*http.Response, error) {
				switch {
				case c.number == at && after:
					return cutOff(c)
				case c.number == at:
					return nil, errors.New("connection refused")
				}
				return c.pass()
			})
			first, err := w.signAll(t, m, path, list)
			if err == nil {
				through++
				continue
			}
			second, err := w.signAll(t, w.honest(), path, list)
			if err != nil || len(w.Logged()) != 4 || w.twins() != 0 {
				t.Errorf("request %d, after %t: %v, %d entries", at, after, err, len(w.Logged()))
			}
			if total := first.Made + second.Made + second.Finished; total != 4 {
				t.Errorf("request %d, after %t: %+v then %+v", at, after, first, second)
			}
		}
		if through == 2 {
			if at != 1+2*4+1 {
				t.Errorf("%d requests for 4 signatures", at-1)
			}
			return
		}
	}
}

// TestTornAnywhere: a journal that a crash cut at any place leads to the same
// end, and its log to no second entry where the signature had been kept.
func TestTornAnywhere(t *testing.T) {
	w := newWorld(t)
	list := orders(t, 2)
	path := journalIn(t)
	if _, err := w.signAll(t, w.honest(), path, list); err != nil {
		t.Fatal(err)
	}
	whole := []byte(contents(t, path))
	for cut := 0; cut <= len(whole); cut += 397 {
		if err := os.WriteFile(path, whole[:cut], 0o600); err != nil {
			t.Fatal(err)
		}
		before := len(w.Logged())
		lines := strings.Count(string(whole[:cut]), "\n")
		got, err := w.signAll(t, w.honest(), path, list)
		if err != nil {
			t.Fatalf("cut at %d: %v", cut, err)
		}
		// The lines are header, signed, logged, signed, logged.
		want := map[int]sign.Tally{0: {Made: 2}, 1: {Made: 2}, 2: {Made: 1, Finished: 1}, 3: {Made: 1, Found: 1}, 4: {Finished: 1, Found: 1}, 5: {Found: 2}}[lines]
		want.Entries = want.Made // what was finished the log has had
		if got != want || len(w.Logged())-before != want.Made {
			t.Errorf("cut at %d, after %d lines: %+v with %d new entries, want %+v", cut, lines, got, len(w.Logged())-before, want)
		}
	}
}

// TestForgetfulLog: a log that does not remember takes what it has once more.
// That happens once for a crash, and is said.
func TestForgetfulLog(t *testing.T) {
	w := newWorld(t)
	path := journalIn(t)
	m := w.meddler(func(c call) (*http.Response, error) {
		if c.service == "rekor" {
			return cutOff(c)
		}
		return c.pass()
	})
	if _, err := w.signAll(t, m, path, orders(t, 1)); err == nil {
		t.Fatal("signed without an answer of the log")
	}
	w.Forget()
	got, err := w.signAll(t, w.honest(), path, orders(t, 1))
	if err != nil || got != (sign.Tally{Finished: 1, Twice: 1, Entries: 1}) || len(w.Logged()) != 2 {
		t.Errorf("%+v, %v, %d entries", got, err, len(w.Logged()))
	}
	if got, err := w.signAll(t, w.honest(), path, orders(t, 1)); err != nil || got != (sign.Tally{Found: 1}) || len(w.Logged()) != 2 {
		t.Errorf("again: %+v, %v, %d entries", got, err, len(w.Logged()))
	}
}

// TestKeptProvesNothing: what a journal says is verified again. Signatures of
// another content, of another role, or damaged, are made anew; whole ones need
// nobody.
func TestKeptProvesNothing(t *testing.T) {
	w := newWorld(t)
	path := journalIn(t)
	if _, err := w.signAll(t, w.honest(), path, orders(t, 2)); err != nil {
		t.Fatal(err)
	}
	whole := contents(t, path)
	silent := w.meddler(func(call) (*http.Response, error) { return nil, errors.New("nobody is to be asked") })
	if got, err := w.signAll(t, silent, path, orders(t, 2)); err != nil || got != (sign.Tally{Found: 2}) {
		t.Errorf("%+v, %v", got, err)
	}
	lines := strings.SplitAfter(whole, "\n")
	subject := func(line string) string {
		_, rest, _ := strings.Cut(line, `"subject":"`)
		name, _, _ := strings.Cut(rest, `"`)
		return name
	}
	swapped := strings.NewReplacer(subject(lines[1]), subject(lines[3]), subject(lines[3]), subject(lines[1]))
	for name, c := range map[string]struct {
		text string
		edit func(*sign.Config)
		want sign.Tally
	}{
		"swapped":          {swapped.Replace(whole), nil, sign.Tally{Made: 2, Entries: 2}},
		"swapped, signed":  {lines[0] + swapped.Replace(lines[1]+lines[3]), nil, sign.Tally{Made: 2, Entries: 2}},
		"another log says": {lines[0] + lines[1] + strings.Replace(lines[4], subject(lines[4]), subject(lines[1]), 1), nil, sign.Tally{Made: 1, Finished: 1, Entries: 1}},
	} {
		if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := w.signAll(t, w.honest(), path, orders(t, 2))
		if err != nil || got != c.want {
			t.Errorf("%s: %+v, %v, want %+v", name, got, err, c.want)
		}
	}
	// Another role has other signatures, whatever the content.
	set := digest.SetOf([]byte("x"))
	st, err := intoto.New(builtby.PredicateType, []intoto.Subject{{Name: "x", Digests: set}}, map[string]any{
		"runDetails": map[string]any{"builder": map[string]string{"id": "https://example.test/builder"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	b := w.signer(t, w.honest(), keeping(t, path), func(c *sign.Config) {
		c.Role = policy.Builder
		c.Token = func(context.Context) (string, error) { return w.lasting(t, lab.RoleBuilder), nil }
	})
	if _, _, err := b.Statement(t.Context(), st); err != nil || b.Tally() != (sign.Tally{Made: 1, Entries: 1}) {
		t.Errorf("%+v, %v", b.Tally(), err)
	}
}
