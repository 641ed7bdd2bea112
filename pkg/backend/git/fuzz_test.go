package git

import (
	"bufio"
	"bytes"
	"crypto/sha1" //nolint:gosec // the ids of git are what they are
	"encoding/hex"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/testing/bounds"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// deaf takes what is asked and says nothing.
type deaf struct{ io.Writer }

// Close does nothing.
func (deaf) Close() error { return nil }

// answering is a process that answers with these bytes.
func answering(answer []byte) *objects {
	return &objects{repo: "fuzz", in: deaf{io.Discard}, out: bufio.NewReader(bytes.NewReader(answer))}
}

// whole is the honest answer to the question for one object.
func whole(kind string, body []byte) (id string, answer []byte) {
	sum := sha1.Sum(fmt.Appendf(nil, "%s %d\x00%s", kind, len(body), body)) //nolint:gosec // see above
	id = hex.EncodeToString(sum[:])
	return id, fmt.Appendf(nil, "%s %s %d\n%s\n", id, kind, len(body), body)
}

// FuzzTree: a tree is read whole, every byte of it, or refused; a name that is
// accepted stays below the directory.
func FuzzTree(f *testing.F) {
	id := string(make([]byte, 20))
	for _, raw := range []string{
		"", "100644 a\x00" + id, "100755 a\x00" + id + "40000 b\x00" + id, "120000 link\x00" + id, "160000 sub\x00" + id,
		"100644 a\x00short", "100644 a", "100644\x00" + id, "40000 ..\x00" + id, "40000 .git\x00" + id, "40000 .GIT\x00" + id, "100644 a/b\x00" + id, "100644 git~1\x00" + id,
	} {
		f.Add([]byte(raw))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		bounds.Bounded(t, raw, func() {
			id, answer := whole("tree", raw)
			entries, err := answering(answer).tree(id)
			if err != nil {
				if verdict.FindingOf("", err).Code != verdict.Tampered || entries != nil {
					t.Errorf("refused with %v", err)
				}
				return
			}
			var again []byte
			for _, e := range entries {
				hash, err := hex.DecodeString(e.id)
				if err != nil {
					t.Fatal(err)
				}
				again = append(fmt.Appendf(again, "%s %s\x00", e.mode, e.name), hash...)
				if checkEntry(e.name) == "" && (strings.ContainsAny(e.name, "/\\\x00") || strings.EqualFold(e.name, ".git") || e.name == "..") {
					t.Errorf("the name %q is accepted", e.name)
				}
			}
			if !bytes.Equal(again, raw) {
				t.Errorf("%q was read as %q", raw, again)
			}
		})
	})
}

// FuzzCommit: a commit that is accepted has a tree and a time.
func FuzzCommit(f *testing.F) {
	tree := "tree " + strings.Repeat("a", 40) + "\n"
	for _, raw := range []string{
		tree + "author A <a@b> 1 +0000\ncommitter A <a@b> 1700000000 +0100\n\nmessage\n", tree, "committer A <a@b> 1 +0000\n",
		tree + "committer A 1 +0000\n\n", tree + "committer <> 99999999999999999999 +0000\n\n", tree + tree + "committer A <a@b> 1 +0000\n\n",
		tree + "parent " + strings.Repeat("b", 40) + "\ncommitter A <a@b> 1 +0000\nparent " + strings.Repeat("b", 40) + "\n\n",
	} {
		f.Add([]byte(raw))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		bounds.Bounded(t, raw, func() {
			id, answer := whole("commit", raw)
			c, err := answering(answer).commit(id, "refs/heads/main")
			if err == nil && (!isID(c.Tree) || c.Time.IsZero() || c.Commit != id) {
				t.Errorf("%q was read as %+v", raw, c)
			}
		})
	})
}

// FuzzObject: whatever the process answers, only bytes of the id that was
// asked for come out.
func FuzzObject(f *testing.F) {
	id, answer := whole("blob", []byte("content"))
	f.Add(answer)
	for _, text := range []string{id + " missing\n", id + " blob -1\n", id + " blob 99999999999\n", id + " tree 0\n\n", id + " blob 7\nCONTENT\n", id + " blob 7\ncontent", "\n", ""} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, answer []byte) {
		bounds.Bounded(t, answer, func() {
			body, err := answering(answer).meta(id, "blob", maxMeta)
			if err == nil && string(body) != "content" {
				t.Errorf("%q was given out as %s", body, id)
			}
		})
	})
}
