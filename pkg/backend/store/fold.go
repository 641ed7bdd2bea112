package store

import (
	"iter"
	"slices"
	"strings"
)

// CheckNames refuses names that cannot lie in one directory of every system:
// one that [CheckName] refuses, two that differ in upper and lower case alone,
// in whatever part of them, and one that is the directory of another. The
// answer is the same on all systems, whatever this one could hold.
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
				return &NameError{Name: dir, Reason: "it is a file, and the directory of " + quote(name)}
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

// checkFold refuses names of which a part is spelled in two ways. Only what
// has a capital letter is remembered, which is little of any release.
func checkFold(names []string) error {
	spelled := map[string]string{} // by how it is where case counts for nothing
	for _, name := range names {
		for part := range parts(name) {
			folded := strings.ToLower(part)
			if folded == part {
				continue
			}
			if other, taken := spelled[folded]; taken && other != part {
				return folds(part, other)
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
				return folds(part, other)
			}
		}
	}
	return nil
}

func folds(name, other string) error {
	return &NameError{Name: name, Reason: "it and " + quote(other) + " are one name where case counts for nothing"}
}

// parents are the directories above a name, the topmost first.
func parents(name string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for i := range len(name) {
			if name[i] == '/' && !yield(name[:i]) {
				return
			}
		}
	}
}

// parts are the directories above a name, and the name.
func parts(name string) iter.Seq[string] { return parents(name + "/") }
