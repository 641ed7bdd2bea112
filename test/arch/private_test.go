package arch_test

import (
	"fmt"
	"slices"
	"strings"
)

// privately ends the comment of each package that is not public.
const privately = "Other projects should not import this package: it changes without notice."

// privateComments refuses packages that could be imported, are not public, and do
// not say so. Commands and what is below cmd/internal cannot be imported.
func privateComments(tr *tree) (refusals []string) {
	public, err := publicPackages(tr)
	if err != nil {
		return []string{err.Error()}
	}
	byRoom := rooms(tr.code())
	for _, room := range sorted(byRoom) {
		if !under(room, "pkg") {
			continue
		}
		for _, s := range byRoom[room] {
			if s.file.Doc == nil {
				continue
			}
			says := strings.HasSuffix(strings.Join(strings.Fields(s.file.Doc.Text()), " "), privately)
			switch isPublic := slices.Contains(public, room); {
			case !isPublic && !says:
				refusals = append(refusals, fmt.Sprintf("%s: the comment of package %s must end with: %s", s.path, room, privately))
			case isPublic && says:
				refusals = append(refusals, fmt.Sprintf("%s: package %s is public, and its comment says that it is not", s.path, room))
			}
		}
	}
	return refusals
}

func privateSeeds() []seed {
	public, not := page(""), strings.Replace(page(""), "`digest`", "", 1)
	digest := func(comment, page string) map[string]string {
		return map[string]string{architecturePage: page, "pkg/value/digest/a.go": comment + "package digest\n"}
	}
	const plain, says = "// Package digest is a word.\n", "// Package digest is a word.\n//\n// Other projects should not import this package: it changes\n// without notice.\n"
	return []seed{
		{"private comments", "pkg/value/digest/a.go: the comment of package pkg/value/digest must end with", digest(plain, not), digest(says, not)},
		{"private comments", "package pkg/value/digest is public, and its comment says that it is not", digest(says, public), digest(plain, public)},
	}
}
