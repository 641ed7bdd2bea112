package lineage

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/trace"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// TargetKind is the kind of a target.
type TargetKind string

// The kinds of targets.
const (
	OfArtifact TargetKind = "artifact"
	OfTrace    TargetKind = "trace"
	OfLog      TargetKind = "log"
)

// Target is what the lineage is about. The zero Target is nothing.
type Target struct {
	Kind TargetKind `json:"kind"`
	// Given is what the user typed.
	Given string `json:"given"`
	// Name is the name of an artifact in its release. Digests are those of a
	// file, of an image with all its platforms, or as typed. The target is
	// every artifact with the name or with one of the digests.
	Name    string          `json:"name,omitempty"`
	Digests []digest.Digest `json:"digests,omitempty"`
	// IDs are ids of traces, initial traces or invocations.
	IDs []trace.ID `json:"ids,omitempty"`
	// Lines say where in a log the ids were.
	Lines []Line `json:"lines,omitempty"`
}

// ParseTarget reads what the user typed: a trace id, the invocation in a
// provenance, a digest, or the name of an artifact. The caller reads files and
// images: see [OfFile] and [OfBytes].
func ParseTarget(text string) (Target, error) {
	refuse := func(format string, args ...any) (Target, error) {
		return Target{}, verdict.Refuse(verdict.Usage, "TARGET", format, args...).
			Advise("name a file, an artifact of the release, HOST/PATH:TAG, HOST/PATH@sha256:…, sha256:…, 32 hexadecimal digits of a trace, or - for log lines")
	}
	if text == "" {
		return refuse("empty; is a variable unset?")
	}
	if algorithm, _, is := strings.Cut(text, ":"); is && (algorithm == "sha256" || algorithm == "sha512") {
		d, err := digest.Parse(text)
		if err != nil {
			return refuse("%.200q: %v", text, err)
		}
		return OfBytes(text, d), nil
	}
	if len(text) == 32 && strings.Trim(strings.ToLower(text), "0123456789abcdef") == "" {
		id, err := trace.ParseID(text)
		if err != nil {
			return refuse("%v", err)
		}
		return Target{Kind: OfTrace, Given: text, IDs: []trace.ID{id}}, nil
	}
	if strings.ContainsAny(text, ":\\") || path.Clean(text) != text || path.IsAbs(text) || strings.HasPrefix(text, "../") {
		return refuse("%.200q: no such file, and not a valid name of an artifact", text)
	}
	return Target{Kind: OfArtifact, Given: text, Name: text}, nil
}

// OfBytes is the target of some bytes: an image by its digest, with the digests
// of its parts.
func OfBytes(given string, all ...digest.Digest) Target {
	return Target{Kind: OfArtifact, Given: given, Digests: all}
}

// OfFile is the target of a file on this machine.
func OfFile(given string, bytes digest.Set) Target {
	return OfBytes(given, bytes.SHA256, bytes.SHA512)
}

// OfLines is the target of lines of a log.
func OfLines(given string, found []Line) Target {
	t := Target{Kind: OfLog, Given: given, Lines: found}
	seen := map[trace.ID]bool{}
	for _, l := range found {
		if id := l.id(); !seen[id] {
			seen[id] = true
			t.IDs = append(t.IDs, id)
		}
	}
	return t
}

// title describes the target for people.
func (t Target) title() string {
	switch t.Kind {
	case OfTrace:
		return "trace " + t.Given
	case OfLog:
		return fmt.Sprintf("log %s", t.Given)
	}
	return t.Given
}

func (t Target) names(a Artifact) bool {
	return t.Name != "" && a.Name == t.Name || slices.ContainsFunc(t.Digests, func(d digest.Digest) bool { return d.Equal(a.SHA256) || d.Equal(a.SHA512) })
}
