package provenance_test

import (
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/document/provenance"
	"github.com/waybill-release/waybill/pkg/value/trace"
)

func stepIDs() trace.IDs {
	return trace.IDs{Trace: trace.ID{1}, Span: trace.SpanID{2}, Initial: trace.ID{3}}
}

// TestTrace: what is written of the run comes back from what was signed, and
// stands in no field that a reader of the build type would not know.
func TestTrace(t *testing.T) {
	p := compile()
	p.RunDetails.Byproducts = append(p.RunDetails.Byproducts, provenance.Traced(stepIDs()))
	s, err := provenance.Encode(subjects(), p)
	if err != nil {
		t.Fatal(err)
	}
	said, err := provenance.Parse(s)
	if err != nil {
		t.Fatal(err)
	}
	if ids, err := provenance.TraceOf(said.Predicate); err != nil || ids != stepIDs() {
		t.Errorf("%v, %v", ids, err)
	}
	if want := `{"name":"otel-trace","uri":"urn:waybill:trace:01000000000000000000000000000000:0200000000000000:03000000000000000000000000000000"}`; !strings.Contains(string(s.Raw()), want) {
		t.Errorf("%s is not in %s", want, s.Raw())
	}
	if log, there := provenance.LogOf(said.Predicate); !there || log.Digest["sha256"] == "" {
		t.Errorf("its log is %v", log)
	}
	claim, err := provenance.Read(s)
	if err != nil || len(claim.Byproducts) != 2 {
		t.Fatalf("anybody's reader has %v, %v", claim.Byproducts, err)
	}
	before, err := provenance.Encode(subjects(), compile())
	if err != nil {
		t.Fatal(err)
	}
	plain, err := provenance.Read(before)
	if err != nil {
		t.Fatal(err)
	}
	if with, without := provenance.Lint(claim), provenance.Lint(plain); len(with) != len(without) {
		t.Errorf("a byproduct without a digest is found fault with: %v", with)
	}
}

// TestTraceUnknown: provenance that is older than the ids says nothing, and
// nothing is made up for it.
func TestTraceUnknown(t *testing.T) {
	if ids, err := provenance.TraceOf(compile()); err != nil || !ids.IsZero() {
		t.Errorf("%v, %v", ids, err)
	}
}

// TestTraceRefused: ids that are no ids are not half read.
func TestTraceRefused(t *testing.T) {
	whole := stepIDs()
	for what, byproducts := range map[string][]provenance.Resource{
		"twice":       {provenance.Traced(whole), provenance.Traced(whole)},
		"no address":  {{Name: "otel-trace"}},
		"no span":     {{Name: "otel-trace", URI: trace.URI(trace.IDs{Trace: whole.Trace})}},
		"upper case":  {{Name: "otel-trace", URI: trace.URN + strings.Repeat("A", 32) + ":0200000000000000"}},
		"another URN": {{Name: "otel-trace", URI: "urn:trace:" + whole.Trace.String() + ":0200000000000000"}},
	} {
		p := compile()
		p.RunDetails.Byproducts = byproducts
		if ids, err := provenance.TraceOf(p); err == nil || !ids.IsZero() {
			t.Errorf("%s: %v, %v", what, ids, err)
		}
	}
}
