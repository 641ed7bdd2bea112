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
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// The bounds of what is listed one by one.
const (
	// maxListed is how many files a document lists. A document of more is none
	// that anybody reads, and most tools run out of memory over it.
	maxListed = 100_000
	// maxNames bounds the bytes of their names.
	maxNames = 16 << 20
)

// listedAsOne begins the comment by which a document says that it does not
// list every file.
const listedAsOne = "listed as one: "

// summary stands for the files that are not listed one by one. As long as there
// are few it stands for none; when there are too many, it takes every file but
// Go programs, artifacts of the release and licences.
type summary struct {
	members Members
	also    map[digest.Digest]bool // files that are listed all the same
	most    int                    // how many are listed
	full    bool
	names   int // bytes of the names of the files so far
	files   int // files so far
	kept    int // of those that are listed all the same
	sum     hash.Hash
	summed  int
}

func newSummary() *summary { return &summary{most: maxListed, sum: sha256.New()} }

// listed takes one file, and reports whether it is to be listed; an archive
// with what is to be listed of it.
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

// fold reports whether a file has something to say beside its bytes, or has
// such files in it. Of one that has not the sum takes the line.
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

// link takes a link, or a hard link to a file that is not listed.
func (s *summary) link(name, target string) {
	s.summed++
	fmt.Fprintf(s.sum, "%s -> %s\n", name, target)
}

// any reports whether anything is not listed one by one.
func (s *summary) any() bool { return s.summed > 0 }

// said is what a document says of what it does not list; "" if it lists all.
func (s *summary) said() string {
	if !s.any() {
		return ""
	}
	return fmt.Sprintf("%d files and links, whose lines of SHA-256 and name, in the order in which they were read, have the SHA-256 %s",
		s.summed, hex.EncodeToString(s.sum.Sum(nil)))
}

func (s *summary) words() string {
	switch {
	case s.full:
		return "too many to list. Go programs, artifacts of the release and licences are listed; the others are " + listedAsOne + s.said() + "."
	case s.any():
		return "every file is listed. Of the links there are more than are listed; the others are " + listedAsOne + s.said() + "."
	}
	return "every file is listed."
}

// listedIn are the files that a document lists although it does not list all:
// artifacts of the release are among them, which nobody knows who reads the
// artifact alone.
func listedIn(doc spdx.Document) map[digest.Digest]bool {
	if !slices.ContainsFunc(doc.Unknown(), func(note string) bool { return strings.HasPrefix(note, listedAsOne) }) {
		return nil
	}
	all := map[digest.Digest]bool{}
	for _, f := range doc.Files() {
		all[f.Digests.SHA256] = true
	}
	return all
}

// asOne demands that a document says of the files that it does not list what is
// found of them.
func asOne(a sbomcheck.Artifact, made Made) []verdict.Finding {
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
	return []verdict.Finding{verdict.Find(verdict.Conflict, a.Name, "artifact and SBOM have other files that are not listed one by one").Differ(want, got)}
}
