package store

import (
	"iter"
	"slices"
	"strings"
)

// CheckNames refuses names that cannot be in one directory on every system: a
// name that [CheckName] refuses, two names (or parts of names) that differ only
// in case, and a file whose name is also the directory of another. The result
// is the same on all systems.
func CheckNames(names []string) error {
	sorted := slices.Sorted(slices.Values(names))
	for _, name := range sorted {
		if err := CheckName(name); err != nil {
			return err
		}
	}
	if err := checkFold(sorted); err != nil {
		return err
	}
	for _, name := range sorted {
		for dir := range parents(name) {
			if _, is := slices.BinarySearch(sorted, dir); is {
				return nameError(dir, "the name is both a file and the directory of "+quote(name))
			}
		}
	}
	return nil
}

// checkListed is [CheckNames] for what a local place lists.
func checkListed(objects []Object) error {
	names := make([]string, len(objects))
	for i, o := range objects {
		names[i] = o.Name
	}
	return CheckNames(names)
}

// checkFold refuses names of which a part is spelled in two ways. Only parts
// with a capital letter are remembered, which are few in any release.
func checkFold(names []string) error {
	spelled := map[string]string{} // by the lower-case form
	for _, name := range names {
		for part := range parts(name) {
			folded := strings.ToLower(part)
			if folded == part {
				continue
			}
			if other, taken := spelled[folded]; taken && other != part {
				return caseConflict(part, other)
			}
			spelled[folded] = part
		}
	}
	if len(spelled) == 0 {
		return nil
	}
	for _, name := range names {
		for part := range parts(name) {
			if other, taken := spelled[part]; taken {
				return caseConflict(part, other)
			}
		}
	}
	return nil
}

func caseConflict(name, other string) error {
	return nameError(name, "the name differs only in case from "+quote(other))
}

// parents yields the directories above a name, the topmost first.
func parents(name string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for i := range len(name) {
			if name[i] == '/' && !yield(name[:i]) {
				return
			}
		}
	}
}

// parts yields the directories above a name, and the name.
func parts(name string) iter.Seq[string] { return parents(name + "/") }
