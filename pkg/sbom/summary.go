package sbom

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"slices"
	"strings"

	"github.com/waybill-release/waybill/pkg/document/spdx"
	"github.com/waybill-release/waybill/pkg/judge/sbomcheck"
	"github.com/waybill-release/waybill/pkg/tool/slice"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// The limits of what is listed one by one.
const (
	// maxListed is how many files a document lists. Larger documents are
	// unreadable, and most tools run out of memory on them.
	maxListed = 100_000
	// maxNames bounds the total size of their names.
	maxNames = 16 << 20
)

// listedAsOne begins the comment of a document that does not list every file.
const listedAsOne = "listed as one: "

// summary covers the files that are not listed one by one. It is empty as long
// as there are few; when there are too many, it covers every file but Go
// programs, artifacts of the release and licences.
type summary struct {
	members Members
	also    map[digest.Digest]bool // files that are listed all the same
	most    int                    // number of listed files
	full    bool
	names   int // total length of the names so far
	files   int // files so far
	kept    int // number of files that are listed all the same
	sum     hash.Hash
	summed  int
}

func newSummary() *summary { return &summary{most: maxListed, sum: sha256.New()} }

// listed adds one file, and reports whether it must be listed itself; an
// archive is returned with those of its files that must be.
func (s *summary) listed(it item) (item, bool, error) {
	s.files++
	s.names += len(it.name)
	if s.files > s.most || s.names > maxNames {
		s.full = true
	}
	if !s.full {
		return it, true, nil
	}
	it, keep := s.fold(it)
	if !keep {
		return item{}, false, nil
	}
	if s.kept++; s.kept > s.most {
		return item{}, false, verdict.Refuse(verdict.Limit, "", "more than %d programs, artifacts and licences", s.most)
	}
	return it, true, nil
}

// fold reports whether a file, or a file in it, has more to report than its
// bytes. The lines of all others go into the sum.
func (s *summary) fold(it item) (item, bool) {
	inner := it.inner
	it.inner = nil
	for _, i := range inner {
		if i, keep := s.fold(i); keep {
			it.inner = append(it.inner, i)
		}
	}
	if it.program != nil || it.file.Licence != "" || len(it.inner) > 0 || s.member(it) {
		return it, true
	}
	s.summed++
	fmt.Fprintf(s.sum, "%s %s\n", it.file.Digests.SHA256, it.name)
	return it, false
}

func (s *summary) member(it item) bool {
	if s.also[it.file.Digests.SHA256] {
		return true
	}
	if s.members == nil {
		return false
	}
	_, known := s.members(it.file.Digests.SHA256)
	return known
}

// link adds a link, or a hard link to a file that is not listed.
func (s *summary) link(name, target string) {
	s.summed++
	fmt.Fprintf(s.sum, "%s -> %s\n", name, target)
}

// hasUnlisted reports whether anything is not listed one by one.
func (s *summary) hasUnlisted() bool { return s.summed > 0 }

// comment is the comment about what a document does not list; "" if it lists all.
func (s *summary) comment() string {
	if !s.hasUnlisted() {
		return ""
	}
	return fmt.Sprintf("%d files and links, whose lines of SHA-256 and name, in the order in which they were read, have the SHA-256 %s",
		s.summed, hex.EncodeToString(s.sum.Sum(nil)))
}

func (s *summary) words() string {
	switch {
	case s.full:
		return "too many to list. Go programs, artifacts of the release and licences are listed; the others are " + listedAsOne + s.comment() + "."
	case s.hasUnlisted():
		return "every file is listed. Of the links there are more than are listed; the others are " + listedAsOne + s.comment() + "."
	}
	return "every file is listed."
}

// listedIn returns the files that a document lists although it does not list
// all: artifacts of the release are among them, which the artifact alone does
// not reveal.
func listedIn(doc spdx.Document) map[digest.Digest]bool {
	if !slices.ContainsFunc(doc.Unknown(), func(note string) bool { return strings.HasPrefix(note, listedAsOne) }) {
		return nil
	}
	return slice.Set(doc.Files(), func(f spdx.File) digest.Digest { return f.Digests.SHA256 })
}

// compareUnlisted compares a document's summary of unlisted files with the summary that
// was computed.
func compareUnlisted(a sbomcheck.Artifact, made Made) []verdict.Finding {
	want, got := "every file is listed", "every file is listed"
	for _, r := range made.Draft.Relationships {
		if r.To == spdx.NoAssertion && strings.HasPrefix(r.Comment, listedAsOne) {
			want = r.Comment
		}
	}
	for _, note := range a.Document.Unknown() {
		if strings.HasPrefix(note, listedAsOne) {
			got = note
		}
	}
	if got == want {
		return nil
	}
	return []verdict.Finding{verdict.Find(verdict.Conflict, a.Name, "the SBOM's summary of unlisted files does not match the artifact").Differ(want, got)}
}
