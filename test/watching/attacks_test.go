package watching

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/judge/watched"
	"github.com/waybill-release/waybill/pkg/report/inspect"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/test/lab"
)

// contradicts makes a world whose log had three entries when it was watched, and
// continues without the third, with others in its place.
func contradicts(t *testing.T, others int, v1 bool) *world {
	t.Helper()
	dir, copied := t.TempDir(), t.TempDir()
	start := func(dir string) *lab.Lab {
		l, err := lab.Start(context.Background(), lab.Options{Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	l := start(dir)
	w := worldOf(t, l, v1)
	w.release(t, "a", "first")
	w.release(t, "b", "second")
	if err := os.CopyFS(copied, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	w.release(t, "c", "third")
	w.pass(t)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	w.Lab = start(copied)
	t.Cleanup(func() { _ = w.Close() })
	for i := range others {
		w.release(t, fmt.Sprint("other", i), fmt.Sprint("other ", i))
	}
	return w
}

// TestContradictions: both checkpoints stay, and the file proves what it says, offline.
func TestContradictions(t *testing.T) {
	stranger := newWorld(t)
	for name, c := range map[string]struct {
		others int
		want   verdict.Code
		v1     bool
	}{
		"another entry": {1, "LOG_FORK", false}, "a larger fork": {4, "LOG_FORK", false}, "fewer entries": {0, "LOG_ROLLBACK", false},
		"v1, another entry": {1, "LOG_FORK", true}, "v1, a larger fork": {4, "LOG_FORK", true}, "v1, fewer entries": {0, "LOG_ROLLBACK", true},
	} {
		t.Run(name, func(t *testing.T) {
			w := contradicts(t, c.others, c.v1)
			w.pass(t, c.want)
			w.pass(t, c.want) // it stays
			files, err := filepath.Glob(filepath.Join(w.State, "*."+strings.ToLower(string(c.want))+".json"))
			if err != nil || len(files) != 1 {
				t.Fatal(files, err)
			}
			raw, err := os.ReadFile(files[0])
			if err != nil {
				t.Fatal(err)
			}
			proof := func() (p watched.Contradiction) {
				if err := json.Unmarshal(raw, &p); err != nil {
					t.Fatal(err)
				}
				return p
			}
			p := proof()
			if err := p.Check(w.Gate.Verifier()); err != nil {
				t.Fatal(err)
			}
			d, err := inspect.Describe(raw)
			if err != nil {
				t.Fatal(err)
			}
			if heading := textOf(t, d); !strings.HasPrefix(heading, "PARSED, NOT VERIFIED") || !strings.Contains(heading, string(c.want)) {
				t.Error(heading)
			}
			if err := d.Check(stranger.Gate.Verifier()); verdict.FindingOf("", err).Code != verdict.CheckpointSig || !strings.HasPrefix(textOf(t, d), "PARSED") {
				t.Errorf("under the key of another log: %v", err)
			}
			if err := d.Check(w.Gate.Verifier()); err != nil || !strings.HasPrefix(textOf(t, d), "VERIFIED") {
				t.Errorf("under the key of the log: %v", err)
			}
			for what, change := range map[string]func(*watched.Contradiction){
				"one checkpoint twice": func(p *watched.Contradiction) { p.Second = p.First },
				"an unsigned one":      func(p *watched.Contradiction) { p.Second = strings.Replace(p.Second, "\n", "\n1", 1) },
				"another log":          func(p *watched.Contradiction) { p.Log = strings.Repeat("a", 64) },
				"another code":         func(p *watched.Contradiction) { p.Code = verdict.Extra },
				"exchanged":            func(p *watched.Contradiction) { p.First, p.Second, p.Code = p.Second, p.First, "LOG_ROLLBACK" },
				"another root":         func(p *watched.Contradiction) { p.Root = make([]byte, 32) },
			} {
				p := proof()
				if change(&p); what == "exchanged" && c.others > 1 || what == "another root" && len(proof().Root) == 0 {
					continue
				}
				if p.Check(w.Gate.Verifier()) == nil {
					t.Errorf("%s: accepted", what)
				}
			}
		})
	}
}

// textOf is a document as people read it.
func textOf(t *testing.T, d inspect.Document) string {
	t.Helper()
	var text strings.Builder
	if err := inspect.Write(&text, inspect.Text, d); err != nil {
		t.Fatal(err)
	}
	return text.String()
}

// TestAnswers: what a log serves other than it signed is refused, what it does not serve
// leaves the question open, and then the honest log is read from where it was.
func TestAnswers(t *testing.T) {
	const atPath, page = "/api/v2/", "<!DOCTYPE html><html><body>Welcome</body></html>"
	flip := func(b []byte) []byte { b[len(b)/2] ^= 1; return b }
	for name, c := range map[string]struct {
		path   string
		change func([]byte) []byte // nil: status 503
		want   verdict.Code
	}{
		"no checkpoint":          {"checkpoint", nil, verdict.PlaceDown},
		"no hashes":              {"tile/0", nil, verdict.PlaceDown},
		"no entries":             {"tile/entries", nil, verdict.PlaceDown},
		"a page as checkpoint":   {"checkpoint", func([]byte) []byte { return []byte(page) }, verdict.CheckpointSig},
		"a page as hashes":       {"tile/0", func([]byte) []byte { return []byte(page) }, verdict.LogProof},
		"a page as entries":      {"tile/entries", func([]byte) []byte { return []byte(page) }, verdict.LogEntryParse},
		"a changed checkpoint":   {"checkpoint", flip, verdict.CheckpointSig},
		"other hashes":           {"tile/0", flip, verdict.LogProof},
		"fewer hashes":           {"tile/0", func(b []byte) []byte { return b[:len(b)/2] }, verdict.LogProof},
		"other entries":          {"tile/entries", flip, verdict.LogProof},
		"fewer entries":          {"tile/entries", func(b []byte) []byte { return b[:len(b)/2] }, verdict.LogEntryParse},
		"an endless entry":       {"tile/entries", func([]byte) []byte { return make([]byte, 20<<20) }, verdict.Limit},
		"hashes of another tile": {"tile/0", func(b []byte) []byte { return append(b[32:], b[:32]...) }, verdict.LogProof},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.release(t, "a", "first")
			w.sign(t, lab.RoleRelease, "planted")
			honest := w.answer.Load()
			w.answer.Store(func(rw http.ResponseWriter, r *http.Request) bool {
				if !strings.HasPrefix(r.URL.Path, atPath+c.path) {
					return false
				}
				if c.change == nil {
					rw.WriteHeader(http.StatusServiceUnavailable)
					return true
				}
				back := httptest.NewRecorder()
				w.real.ServeHTTP(back, r)
				_, _ = rw.Write(c.change(back.Body.Bytes()))
				return true
			})
			w.pass(t, c.want)
			w.answer.Store(honest)
			w.pass(t, "LOG_UNEXPLAINED")
			w.release(t, "b", "planted")
			w.pass(t)
		})
	}
}

// TestStopped: a log without new entries is not accepted for ever, and neither is one that
// was followed and that no address answers for.
func TestStopped(t *testing.T) {
	for _, v1 := range []bool{false, true} {
		w := worldOf(t, lab.New(t), v1)
		w.Stalled = time.Hour
		w.release(t, "a", "first")
		w.pass(t)
		w.now = w.now.Add(2 * time.Hour)
		w.pass(t, "LOG_STALLED")
		w.release(t, "b", "second")
		w.pass(t)
		w.down()
		w.pass(t, verdict.PlaceDown) // not yet
		w.now = w.now.Add(2 * time.Hour)
		w.pass(t, verdict.PlaceDown, "LOG_STALLED")
		other := worldOf(t, lab.New(t), v1)
		other.State = w.State
		other.pass(t, "LOG_STALLED")
	}
}

// TestStrangers: a certificate that names our identity and that no authority of the trust
// root issued is not ours; another lab's certificates are such.
func TestStrangers(t *testing.T) {
	w, other := newWorld(t), newWorld(t)
	other.sign(t, lab.RoleRelease, "stranger")
	body := other.Logged()[0]
	_, is, err := watched.By(w.Gate.Profile().Policy, w.Gate.Verifier()).Entry([]byte(body))
	if is || err != nil {
		t.Error(is, err)
	}
	if _, is, err := watched.By(other.Gate.Profile().Policy, other.Gate.Verifier()).Entry([]byte(body)); !is || err != nil {
		t.Error("the twin: ", is, err)
	}
	if _, is, err := watched.By(other.Gate.Profile().Policy, w.Gate.Verifier()).Entry([]byte(body)); is || err != nil {
		t.Error("the same name, another authority: ", is, err)
	}
}

// TestManyActs: signatures made again, evidence that moves, and logs that do not answer
// raise no alarm in 1,000 acts; each entry that was planted among them does.
func TestManyActs(t *testing.T) {
	w := newWorld(t)
	r := rand.New(rand.NewPCG(1, 2))
	honest := w.answer.Load()
	away := func(rw http.ResponseWriter, _ *http.Request) bool {
		rw.WriteHeader(http.StatusServiceUnavailable)
		return true
	}
	w.release(t, "first", "first")
	w.pass(t)
	names, planted := []string{"first"}, 0
	for n := range 1000 {
		switch act := r.IntN(10); {
		case act < 2:
			names = append(names, fmt.Sprint("r", n))
			w.release(t, names[len(names)-1], names[len(names)-1])
		case act < 4: // signed again, by another certificate
			w.sign(t, lab.RoleRelease, names[r.IntN(len(names))])
		case act < 7: // renamed
			name := names[r.IntN(len(names))]
			found, _ := filepath.Glob(filepath.Join(w.Explained.Dirs[0], name+".*"))
			if err := os.Rename(found[0], filepath.Join(w.Explained.Dirs[0], fmt.Sprintf("%s.%d.sigstore.json", name, n))); err != nil {
				t.Fatal(err)
			}
		case act < 8:
			w.answer.Store(away)
			w.pass(t, verdict.PlaceDown)
			w.answer.Store(honest)
		case n%20 == 0 && n > 900:
			w.sign(t, lab.RoleBuilder, fmt.Sprint("planted ", n))
			planted++
		default:
			if planted == 0 && n%5 == 0 {
				w.pass(t)
			}
		}
	}
	for planted < 5 {
		w.sign(t, lab.RoleBuilder, fmt.Sprint("planted ", planted))
		planted++
	}
	codes := make([]verdict.Code, planted)
	for i := range codes {
		codes[i] = "LOG_UNEXPLAINED"
	}
	w.pass(t, codes...)
}

// BenchmarkEntry reads one entry of somebody else, whose certificate names the issuer of
// our identities, which most entries of a public log do.
func BenchmarkEntry(b *testing.B) {
	w := newWorld(b)
	w.sign(b, lab.RoleVerifier, "another")
	body, ours := []byte(w.Logged()[0]), watched.By(w.Gate.Profile().Policy, w.Gate.Verifier())
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, is, err := ours.Entry(body); is || err != nil {
				b.Fatal(is, err)
			}
		}
	})
}
