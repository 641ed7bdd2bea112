package spdx

import (
	"crypto/sha1" // SPDX 2.3 defines the verification code with SHA-1
	"encoding/hex"
	"io"
	"slices"
)

// acyclic refuses elements that contain themselves. Dependencies may be
// circular, but containment may not.
func (c *checker) acyclic() bool {
	inside := c.contained()
	const open, closed = 1, 2
	state := make(map[string]uint8, len(inside))
	type visit struct {
		id   string
		next int
	}
	for start := range inside {
		if state[start] != 0 {
			continue
		}
		state[start] = open
		// Not recursive, because the document determines the depth.
		for path := []visit{{id: start}}; len(path) > 0; {
			top := &path[len(path)-1]
			if top.next == len(inside[top.id]) {
				state[top.id] = closed
				path = path[:len(path)-1]
				continue
			}
			child := inside[top.id][top.next]
			top.next++
			switch state[child] {
			case open:
				c.add(ruleContainment, "relationships", "%s contains itself", quote(child))
				return false
			case 0:
				state[child] = open
				path = append(path, visit{id: child})
			}
		}
	}
	return true
}

// contained lists what each element contains, among the elements of this
// document.
func (c *checker) contained() map[string][]string {
	inside := make(map[string][]string)
	for i := range c.m.relationships {
		r := &c.m.relationships[i]
		from, to := r.From, r.To
		switch r.Type {
		case Contains:
		case "CONTAINED_BY":
			from, to = to, from
		default:
			continue
		}
		if _, own := c.elements[to]; !own {
			continue
		}
		if _, own := c.elements[from]; own {
			inside[from] = append(inside[from], to)
		}
	}
	return inside
}

// rollUps checks section 7.9. The verification code of a package is computed
// over the files that it contains, so an omitted file changes it.
func (c *checker) rollUps() {
	var inside map[string][]string
	for i := range c.m.packages {
		p := &c.m.packages[i]
		if p.Verification == "" || slices.Contains(c.m.excluding, p.ID) {
			continue
		}
		if inside == nil {
			inside = c.contained()
		}
		var files []File
		seen := map[string]bool{}
		for _, id := range inside[p.ID] {
			if e := c.elements[id]; e.kind == aFile && !seen[id] {
				seen[id] = true
				files = append(files, c.m.files[e.index])
			}
		}
		if got := VerificationCode(files); got != p.Verification {
			c.add(ruleFiles, packageAt(i), "the verification code does not match the listed files (%d): want %s, got %s",
				len(files), quote(p.Verification), got)
		}
	}
}

// VerificationCode is the verification code over all files of a package
// (section 7.9): the SHA-1 of their sorted SHA-1 values. It binds nothing; it
// lets other tools notice an omitted file.
func VerificationCode(files []File) string {
	sums := make([]string, len(files))
	for i, f := range files {
		sums[i] = f.SHA1
	}
	slices.Sort(sums)
	h := sha1.New()
	for _, s := range sums {
		_, _ = io.WriteString(h, s)
	}
	return hex.EncodeToString(h.Sum(nil))
}
