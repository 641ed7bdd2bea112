package policy

import (
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// A versioned tag in place of the ref accepts what it covers, by numbers.
func TestVersionedTag(t *testing.T) {
	raw, accepts := largest(t)
	asked := wholeRelease(t, accepts)[0]
	asked.q.Commit = accepts.Ask.Commit
	major, _, _ := strings.Cut(asked.q.Version, ".")
	minor := strings.Join(strings.Split(asked.q.Version, ".")[:2], ".")
	raw = []byte(strings.ReplaceAll(string(raw), `is: "{ref}"`, "any: true")) // there is no one ref
	for versioned, code := range map[string]verdict.Code{
		major: "", minor: "", asked.q.Version: "",
		major + "0": verdict.SourceRef, major + ".99": verdict.SourceRef, "v0": verdict.SourceRef,
	} {
		p := changed(t, raw, `ref: "refs/tags/{version}"`, "versionedTag: "+versioned)
		codes := codesOf(p, asked)
		if code == "" && len(codes) > 0 || code != "" && (len(codes) != 1 || !strings.HasPrefix(codes[0], string(code)+": ")) {
			t.Errorf("%s for a build of %s: %q, want %q", versioned, asked.q.Version, codes, code)
		}
	}
}
