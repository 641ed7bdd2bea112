package lineage

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/waybill-release/waybill/pkg/release/manifest"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/trace"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// id is a trace that is easy to tell from others.
func id(t testing.TB, digit string) trace.ID {
	t.Helper()
	one, err := trace.ParseID(strings.Repeat(digit, 32))
	if err != nil {
		t.Fatal(err)
	}
	return one
}

func sum(text string) digest.Digest { return digest.Of(digest.SHA256, []byte(text)) }

func made(name string) Artifact { return Artifact{Name: name, SHA256: sum(name)} }

func signed(evidence string) Signer {
	return Signer{Mark: Verified, By: "builder@example.test", Role: "builder", SignedAt: noon, Entry: &Entry{"log", 7}, Evidence: sum(evidence)}
}

// step is a step that was signed for.
func step(name string, in trace.ID, at time.Duration, uses ...Artifact) Act {
	a := Act{Kind: Step, Name: name, Signer: signed("step " + name), Began: noon.Add(at), Ended: noon.Add(at + time.Second), Artifacts: []Artifact{made(name)}, Uses: uses}
	a.trust(trace.IDs{Trace: in, Initial: in})
	return a
}

// tree is a trail with two runs: one that makes a, and b of it, and one that
// promotes b a week later.
func tree(t testing.TB) *Trail {
	t.Helper()
	trail := Start(Believed{})
	trail.add("release", step("a", id(t, "1"), 0))
	trail.add("release", step("b", id(t, "1"), 2*time.Second, made("a")))
	p := Act{Kind: Promotion, Signer: signed("promotion"), Began: noon.Add(170 * time.Hour), Artifacts: []Artifact{made("b")}, Route: Route{From: "staging/b", To: "eu/b", Tags: []string{"v1"}}}
	p.trust(trace.IDs{Trace: id(t, "2"), Initial: id(t, "1")})
	trail.add("eu", p)
	return trail
}

func ask(t testing.TB, text string) Target {
	t.Helper()
	target, err := ParseTarget(text)
	if err != nil {
		t.Fatal(err)
	}
	return target
}

func TestFromAnArtifactToEveryRun(t *testing.T) {
	for name, target := range map[string]Target{"name": ask(t, "b"), "digest": ask(t, sum("b").String()), "file": OfFile("./b", digest.SetOf([]byte("b")))} {
		l, err := tree(t).Of(target)
		if err != nil {
			t.Fatal(err)
		}
		if len(l.Runs) != 2 || l.Runs[0].IDs.Trace != id(t, "1") || l.Runs[1].IDs.Trace != id(t, "2") || l.Runs[1].IDs.Initial != id(t, "1") {
			t.Fatalf("%s: %+v", name, l.Runs)
		}
		steps := l.Runs[0].Acts
		if len(steps) != 2 || !steps[0].Upstream || steps[0].Name != "a" || steps[1].Upstream || l.Runs[0].Others != 0 {
			t.Errorf("%s: what it was made from is not upstream: %+v", name, steps)
		}
	}
	l, err := tree(t).Of(ask(t, "a"))
	if err != nil || len(l.Runs) != 1 || len(l.Runs[0].Acts) != 1 || l.Runs[0].Others != 1 {
		t.Errorf("a was touched by one step of one run: %+v, %v", l.Runs, err)
	}
}

// TestTheOrderOfFindingSaysNothing: places are read side by side, and answer in
// any order.
func TestTheOrderOfFindingSaysNothing(t *testing.T) {
	var acts []Act
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		acts = append(acts, step(name, id(t, "1"), 0))
		a := Act{Kind: Signature, Signer: signed("signature " + name), Artifacts: []Artifact{made(name)}}
		a.By = name + "@example.test"
		a.trust(trace.IDs{Trace: id(t, "1"), Initial: id(t, "1")})
		acts = append(acts, a)
	}
	want := ""
	for range 20 {
		trail := Start(Believed{})
		for _, i := range rand.Perm(2 * len(acts)) {
			trail.add([]string{"release", "staging"}[i%2], acts[i/2])
			trail.Note("note %d", i)
		}
		l, err := trail.Of(ask(t, id(t, "1").String()))
		if err != nil {
			t.Fatal(err)
		}
		raw, err := json.Marshal(l)
		if err != nil {
			t.Fatal(err)
		}
		if want == "" {
			want = string(raw)
		}
		if string(raw) != want {
			t.Fatalf("two answers to one question:\n%s\n%s", want, raw)
		}
	}
}

func TestFromATraceToWhatItMade(t *testing.T) {
	l, err := tree(t).Of(ask(t, id(t, "2").String()))
	if err != nil || len(l.Runs) != 1 || len(l.Artifacts) != 1 || l.Artifacts[0].Name != "b" {
		t.Errorf("%+v, %v", l, err)
	}
	l, err = tree(t).Of(ask(t, id(t, "1").String())) // it is the initial trace of the other
	if err != nil || len(l.Runs) != 2 || len(l.Artifacts) != 2 {
		t.Errorf("%+v, %v", l, err)
	}
}

func TestNothingKnownIsNoSuccess(t *testing.T) {
	for _, text := range []string{"c", sum("c").String(), strings.Repeat("3", 32)} {
		l, err := tree(t).Of(ask(t, text))
		f := verdict.FindingOf("", err)
		if f.Code != verdict.EvidenceMissing || !strings.Contains(f.Fix, "--profile") || len(l.Runs) != 0 || l.Runs == nil {
			t.Errorf("%s: %v, %+v", text, err, l)
		}
	}
}

// TestHintsNeverWin: each row differs from what is signed in one id.
func TestHintsNeverWin(t *testing.T) {
	span := func(text string) trace.SpanID {
		s, err := trace.ParseSpanID(text)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	said := trace.IDs{Trace: id(t, "1"), Span: span("00f067aa0ba902b7"), Initial: id(t, "1")}
	for _, c := range []struct {
		name      string
		hint      trace.IDs
		conflicts int
	}{
		{"the same", said, 0},
		{"none", trace.IDs{}, 0},
		{"less", trace.IDs{Trace: said.Trace}, 0},
		{"another trace", trace.IDs{Trace: id(t, "9"), Span: said.Span, Initial: said.Initial}, 1},
		{"another span", trace.IDs{Trace: said.Trace, Span: span("00f067aa0ba902b8"), Initial: said.Initial}, 1},
		{"another beginning", trace.IDs{Trace: said.Trace, Span: said.Span, Initial: id(t, "9")}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			trail := Start(Believed{})
			a := step("a", said.Trace, 0)
			a.trust(said)
			trail.annotate(&a, c.hint, "registry.example.test")
			trail.add("registry.example.test", a)
			l, err := trail.Of(ask(t, "a"))
			if err != nil || l.Runs[0].IDs.Trace != said.Trace || l.Runs[0].IDs.Initial != said.Initial || l.Runs[0].Mark != Verified {
				t.Errorf("%+v, %v", l.Runs, err)
			}
			if len(l.Findings) != c.conflicts {
				t.Fatalf("findings %+v", l.Findings)
			}
			for _, f := range l.Findings {
				if f.Code != verdict.TraceConflict || f.Want != trace.URI(said) || f.Got != trace.URI(c.hint) || !strings.Contains(f.Message, "registry.example.test") {
					t.Errorf("%+v", f)
				}
			}
		})
	}
}

// TestSignaturesGoWhereTheManifestSays: a signature names no run itself.
func TestSignaturesGoWhereTheManifestSays(t *testing.T) {
	signer := manifest.RunOf("sign", id(t, "4").String(), trace.IDs{Trace: id(t, "4"), Initial: id(t, "1")}, "waybill sign")
	again := manifest.RunOf("sign", id(t, "5").String(), trace.IDs{Trace: id(t, "5"), Initial: id(t, "1")}, "waybill sign")
	for _, c := range []struct {
		name     string
		runs     []manifest.Run
		hint     trace.IDs
		in       trace.ID
		mark     Mark
		conflict bool
	}{
		{"one run", []manifest.Run{signer}, trace.IDs{}, id(t, "4"), Verified, false},
		{"one run, and a hint to it", []manifest.Run{signer}, trace.IDs{Trace: id(t, "4")}, id(t, "4"), Verified, false},
		{"one run, and a hint elsewhere", []manifest.Run{signer}, trace.IDs{Trace: id(t, "9")}, id(t, "4"), Verified, true},
		{"two runs", []manifest.Run{signer, again}, trace.IDs{}, trace.ID{}, "", false},
		{"two runs, and a hint to one", []manifest.Run{signer, again}, trace.IDs{Trace: id(t, "5")}, id(t, "5"), Hint, false},
		{"two runs, and a hint elsewhere", []manifest.Run{signer, again}, trace.IDs{Trace: id(t, "9")}, trace.ID{}, "", true},
		{"none, as of before", nil, trace.IDs{}, trace.ID{}, "", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			trail := Start(Believed{})
			bundle := manifest.Artifact{Digests: digest.Set{SHA256: sum("signature")}}
			bundle.Name = "a.sigstore.json"
			trail.sealed = []foundManifest{{Manifest: manifest.Manifest{Runs: c.runs, Artifacts: []manifest.Artifact{bundle}}, Signer: signed("manifest")}}
			a := Act{Kind: Signature, Signer: signed("signature"), Artifacts: []Artifact{made("a")}}
			trail.annotate(&a, c.hint, "registry")
			trail.add("release", a)
			trail.addManifestIDs()
			if got := trail.acts[0]; got.IDs.Trace != c.in || got.Traced != c.mark {
				t.Errorf("it is in %q, %s", got.IDs.Trace, got.Traced)
			}
			if (len(trail.findings) > 0) != c.conflict {
				t.Errorf("findings %+v", trail.findings)
			}
		})
	}
}

// TestCyclesEnd: evidence that says that a was made of b and b of a is forged,
// and no reason to go round for ever.
func TestCyclesEnd(t *testing.T) {
	trail := Start(Believed{})
	trail.add("x", step("a", id(t, "1"), 0, made("b")))
	trail.add("x", step("b", id(t, "1"), 1, made("a")))
	trail.parts[sum("a")] = []digest.Digest{sum("b")}
	trail.parts[sum("b")] = []digest.Digest{sum("a")}
	l, err := trail.Of(ask(t, "a"))
	if err != nil || len(l.Runs) != 1 || len(l.Runs[0].Acts) != 2 {
		t.Errorf("%+v, %v", l, err)
	}
}

func TestTargets(t *testing.T) {
	for _, bad := range []string{
		"", "sha256:", "sha256:abc", "sha256:" + strings.Repeat("A", 64), "sha512:" + strings.Repeat("a", 64), "md5:" + strings.Repeat("a", 32),
		strings.Repeat("0", 32), strings.Repeat("AB", 16), "../secret", "/etc/passwd", "a/../b", "a//b", "image:tag", `a\b`,
	} {
		if target, err := ParseTarget(bad); verdict.OutcomeOf(err) != verdict.Malformed {
			t.Errorf("%q is %+v, %v", bad, target, err)
		}
	}
	for text, want := range map[string]TargetKind{
		strings.Repeat("ab", 16): OfTrace, strings.Repeat("ab", 16) + "c": OfArtifact, strings.Repeat("a", 31): OfArtifact,
		sum("a").String(): OfArtifact, "bin/linux/amd64/tool": OfArtifact, "oci/tool": OfArtifact,
	} {
		if target, err := ParseTarget(text); err != nil || target.Kind != want {
			t.Errorf("%q is %+v, %v", text, target, err)
		}
	}
}

func TestLogLines(t *testing.T) {
	one, two := strings.Repeat("1", 32), strings.Repeat("2", 32)
	const span = "00f067aa0ba902b7"
	for _, c := range []struct{ text, trace, span, initial string }{
		{`{"time":"2026-03-01T12:00:00Z","level":"INFO","msg":"x","trace_id":"` + one + `","span_id":"` + span + `","initial_trace_id":"` + two + `"}`, one, span, two},
		{`{"msg":"trace_id=` + two + `","trace_id":"` + one + `"}`, one, "", ""},
		{"INFO pushed traceparent=00-" + one + "-" + span + "-01 done", one, span, ""},
		{"00-" + one + "-" + span + "-00", one, span, ""},
		{"level=info trace_id=" + one + " span_id=" + span + " initial-trace-id=" + two, one, span, two},
		{`level=info traceID="` + one + `"`, one, "", ""},
		{"baggage: initial-trace-id=" + two, "", "", two},
		{"see " + trace.URN + one + ":" + span + ":" + two + ".", one, span, two},
		{"\x1b[32mtrace_id=" + one + "\x1b[0m", one, "", ""}, // as a terminal shows it
		// What only looks like one.
		{"sha256:" + one + two, "", "", ""},
		{one, "", "", ""},
		{"trace_id=" + one + "0", "", "", ""},
		{"trace_id=" + strings.Repeat("0", 32), "", "", ""},
		{"trace_id=" + strings.Repeat("AB", 16), "", "", ""},
		{"trace_id=" + strings.Repeat("１", 32), "", "", ""},
		{"trace_id=" + one + " trace_id=" + two, "", "", ""},
		{"00-" + one + "-" + span + "-01f", "", "", ""},
		{"x00-" + one + "-" + span + "-01", "", "", ""},
		{"ff-" + one + "-" + span + "-01", "", "", ""},
		{`{"trace_id":["` + one + `"]}`, "", "", ""},
		{"", "", "", ""},
	} {
		found, err := ReadLog(strings.NewReader("an earlier line\n" + c.text + "\n" + c.text))
		if err != nil {
			t.Fatal(err)
		}
		if c.trace+c.initial == "" {
			if len(found) != 0 {
				t.Errorf("%q names %+v", c.text, found)
			}
			continue
		}
		if len(found) != 1 || found[0].Trace.String() != c.trace || found[0].Span.String() != c.span || found[0].Initial.String() != c.initial || found[0].Line != 2 || found[0].Count != 2 {
			t.Errorf("%q names %+v", c.text, found)
		}
	}
}

// flood is a log without an end of line.
type flood struct{ left int64 }

func (f *flood) Read(p []byte) (int, error) {
	if f.left <= 0 {
		return 0, io.EOF
	}
	for i := range p {
		p[i] = 'x'
	}
	f.left -= int64(len(p))
	return len(p), nil
}

func TestHostileLogs(t *testing.T) {
	one := strings.Repeat("1", 32)
	found, err := ReadLog(io.MultiReader(&flood{100 << 20}, strings.NewReader("\ntrace_id="+one)))
	if err != nil || len(found) != 1 || found[0].Line != 2 {
		t.Errorf("after a line of 100 MB: %+v, %v", found, err)
	}
	var many bytes.Buffer
	for i := 1; i <= maxFound+1; i++ {
		fmt.Fprintf(&many, "trace_id=%032x\n", i)
	}
	if _, err := ReadLog(&many); verdict.FindingOf("", err).Code != verdict.Limit {
		t.Errorf("of endless traces: %v", err)
	}
	if _, err := ReadLog(io.MultiReader(strings.NewReader("trace_id="+one+"\n"), broken{})); verdict.OutcomeOf(err) != verdict.Unavailable {
		t.Errorf("a log that breaks off: %v", err)
	}
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, errors.New("gone") }

// TestWhatDoesNotAnswerIsSaid: it is neither absent nor an error of the rest.
func TestWhatDoesNotAnswerIsSaid(t *testing.T) {
	trail := tree(t)
	if err := trail.failed(t.Context(), "staging", &verdict.UnavailableError{Place: "staging", Op: "reading", Err: errors.New("down")}); err != nil {
		t.Fatal(err)
	}
	l, err := trail.Of(ask(t, "b"))
	if err != nil || len(l.Unasked) != 1 || len(l.Findings) != 0 || len(l.Runs) != 2 {
		t.Errorf("%+v, %v", l, err)
	}
	ended, stop := context.WithCancel(t.Context())
	stop()
	if err := trail.failed(ended, "staging", errors.New("x")); !errors.Is(err, context.Canceled) {
		t.Errorf("an interrupted run goes on: %v", err)
	}
}

// TestForeignTextIsHarmless: whatever others wrote reaches the terminal as text.
func TestForeignTextIsHarmless(t *testing.T) {
	evil := "\x1b]0;owned\a\u202ereversed\n└─ forged"
	trail := Start(Believed{})
	a := step("a", id(t, "1"), 0)
	a.Name, a.By, a.Why, a.Mark, a.Invocation = evil, evil, evil, Hint, evil
	a.Log = &Log{Digest: sum("log"), Path: evil}
	a.Artifacts = append(a.Artifacts, Artifact{Name: evil, SHA256: sum("a")})
	trail.add(evil, a)
	for _, kind := range []Kind{Summary, Promotion, Statement, Command, Amendment, Withdrawal} {
		trail.add(evil, Act{
			Kind: kind, Name: evil, Result: evil, IDs: trace.IDs{Trace: id(t, "1")}, Traced: Hint, Began: noon, Artifacts: []Artifact{made("a")},
			Signer: Signer{Mark: Hint, Why: evil, By: evil, Evidence: sum(string(kind))}, Route: Route{From: evil, To: evil, Tags: []string{evil}}, Typed: []string{evil},
		})
	}
	trail.Note("%s", evil)
	trail.findings = []verdict.Finding{verdict.Find(verdict.TraceConflict, evil, "%s", evil).Differ(evil, evil)}
	for _, text := range []string{"a", id(t, "1").String()} {
		l, err := trail.Of(ask(t, text))
		if err != nil {
			t.Fatal(err)
		}
		var out, js bytes.Buffer
		if err := (Writer{Format: Table, Verbose: true}).Write(&out, l); err != nil {
			t.Fatal(err)
		}
		if s := out.String(); strings.ContainsAny(s, "\x1b\a\u202e") || strings.Contains(s, "\n└─ forged") || !utf8.ValidString(s) {
			t.Errorf("%q", s)
		}
		if err := (Writer{Format: JSON}).Write(&js, l); err != nil {
			t.Fatal(err)
		}
		if strings.ContainsAny(js.String(), "\x1b\a") || !json.Valid(js.Bytes()) {
			t.Errorf("%q", js.String())
		}
	}
}
