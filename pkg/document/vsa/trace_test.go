package vsa_test

import (
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/document/vsa"
	"github.com/waybill-release/waybill/pkg/value/trace"
)

func judgedIn(t *testing.T, ids trace.IDs) intoto.Statement {
	t.Helper()
	c := claim()
	c.Trace = ids
	s, err := vsa.New(judged(), c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func traceOf(t *testing.T, s intoto.Statement) (trace.IDs, error) {
	t.Helper()
	said, err := vsa.Parse(s) // to judge by it nobody needs its run
	if err != nil {
		t.Fatal(err)
	}
	return vsa.TraceOf(said)
}

// TestTraceOfASummary: the run that judged can be read back, and what was
// judged without one says nothing of it.
func TestTraceOfASummary(t *testing.T) {
	ids := trace.IDs{Trace: trace.ID{1}, Span: trace.SpanID{2}, Initial: trace.ID{3}}
	for _, want := range []trace.IDs{ids, {Trace: ids.Trace, Span: ids.Span}, {}} {
		s := judgedIn(t, want)
		if ids, err := traceOf(t, s); err != nil || ids != want {
			t.Errorf("%v, %v, want %v", ids, err, want)
		}
		if has := strings.Contains(string(s.Raw()), "waybill_trace"); has == want.IsZero() {
			t.Errorf("of %v it says %s", want, s.Raw())
		}
	}
}

// TestGistIgnoresTheRun: whoever judges the same again, in whatever run, finds
// that it has been said; who judges something else does not.
func TestGistIgnoresTheRun(t *testing.T) {
	gist := func(s intoto.Statement) string {
		d, err := vsa.Gist(s)
		if err != nil {
			t.Fatal(err)
		}
		return d.String()
	}
	first := gist(judgedIn(t, trace.IDs{Trace: trace.ID{1}, Span: trace.SpanID{2}, Initial: trace.ID{3}}))
	if again := gist(judgedIn(t, trace.IDs{Trace: trace.ID{4}, Span: trace.SpanID{5}, Initial: trace.ID{6}})); again != first {
		t.Error("another run says something else")
	}
	if before := gist(judgedIn(t, trace.IDs{})); before != first {
		t.Error("a summary from before the ids says something else")
	}
	other := claim()
	other.Resource = "https://dl.example.test/lantern/v0.2.0/"
	s, err := vsa.New(judged(), other)
	if err != nil {
		t.Fatal(err)
	}
	if gist(s) == first {
		t.Error("another resource says the same")
	}
}

// TestTraceThatIsNone: ids in another form are not half read.
func TestTraceThatIsNone(t *testing.T) {
	good := string(judgedIn(t, trace.IDs{Trace: trace.ID{1}, Span: trace.SpanID{2}}).Raw())
	id := trace.ID{1}.String()
	for _, bad := range []string{strings.ToUpper("0a" + id[2:]), id[:31], strings.Repeat("0", 32), ""} {
		s, err := intoto.Parse([]byte(strings.Replace(good, id, bad, 1)))
		if err != nil {
			t.Fatal(err)
		}
		if ids, err := traceOf(t, s); err == nil {
			t.Errorf("%q is read as %v", bad, ids)
		}
	}
}
