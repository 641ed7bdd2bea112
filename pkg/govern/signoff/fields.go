package signoff

import (
	"path"
	"slices"
	"strings"

	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// checkStatus checks that status, stage and milestone are valid and consistent.
func (j *judging) checkStatus() {
	word := func(what, got string, known []string) bool {
		switch near := nearest(got, known); {
		case got == "" || slices.Contains(known, got):
			return got != ""
		case near != "":
			j.find(verdict.SignoffStatus, j.kep(), "%s is %s; did you mean %s?", what, quoted(got), near)
		default:
			j.find(verdict.SignoffStatus, j.kep(), "%s is %s, want one of %s", what, quoted(got), strings.Join(known, ", "))
		}
		return false
	}
	status := word("status", j.k.Status, statuses())
	stage := word("stage", j.k.Stage, kepStages())
	claimed := j.k.claims()
	switch {
	case stage && j.k.Status == "implemented" && j.k.Stage != string(Stable) && !j.k.leaves():
		j.find(verdict.SignoffStatus, j.kep(), "status implemented with stage %s: only a stable feature is implemented", j.k.Stage)
	case stage && claimed != j.at && claimed.reaches(j.at):
		j.find(verdict.SignoffStatus, j.kep(), "the document claims %s, but is checked for %s, which requires less", j.k.Stage, j.at)
	case stage && claimed != j.at:
		j.warn(verdict.SignoffStatus, j.kep(), "the document claims %s, but is checked for %s", j.k.Stage, j.at)
	}
	if status && j.Milestone != "" && j.k.Status != "implementable" && j.k.Status != "implemented" {
		j.find(verdict.SignoffStatus, j.kep(), "the document targets %s with status %s, want implementable or implemented", j.Milestone, j.k.Status)
	}
	if _, ok := release(j.k.LatestMilestone); j.k.LatestMilestone != "" && !ok {
		j.find(verdict.SignoffStatus, j.kep(), "latest-milestone is %s, want one such as v1.37", quoted(j.k.LatestMilestone))
	}
}

// claims is the stage that a kep.yaml claims. A feature that is being removed must have
// been stable.
func (k KEP) claims() Stage {
	if k.leaves() {
		return Stable
	}
	return Stage(k.Stage)
}

// leaves reports whether a feature is being removed.
func (k KEP) leaves() bool {
	return slices.Contains([]string{"deprecated", "disabled", "removed"}, k.Stage)
}

// checkFields checks that a kep.yaml has the required fields, without the examples of the
// template.
func (j *judging) checkFields() {
	for _, f := range []struct {
		name   string
		values []string
		from   Stage
		none   bool // an empty list is an answer
	}{
		{"title", []string{j.k.Title}, Alpha, false},
		{"authors", j.k.Authors, Alpha, false},
		{"owning-sig", []string{j.k.OwningSIG}, Alpha, false},
		{"status", []string{j.k.Status}, Alpha, false},
		{"stage", []string{j.k.Stage}, Alpha, false},
		{"creation-date", []string{j.k.CreationDate}, Alpha, false},
		{"latest-milestone", []string{j.k.LatestMilestone}, Alpha, false},
		{"feature-gates", j.k.Gates, Alpha, true},
		{"disable-supported", []string{j.k.DisableSupported}, Alpha, false},
		{"metrics", j.k.Metrics, Beta, true},
	} {
		if !j.at.reaches(f.from) {
			continue
		}
		blank := !slices.ContainsFunc(f.values, func(v string) bool { return v != "" })
		switch {
		case !j.k.said[f.name]:
			j.find(verdict.SignoffField, j.kep(), "field %s is missing", f.name)
		case blank && !f.none:
			j.find(verdict.SignoffField, j.kep(), "%s is empty", f.name)
		case slices.ContainsFunc(f.values, example().MatchString):
			j.find(verdict.SignoffField, j.kep(), "%s still has the example of the template: %s", f.name, quoted(strings.Join(f.values, ", ")))
		}
	}
	if v := j.k.DisableSupported; v != "" && v != "true" && v != "false" {
		j.find(verdict.SignoffField, j.kep(), "disable-supported is %s, want true or false", quoted(v))
	}
}

// checkReview checks the approval of production readiness, if one is needed.
func (j *judging) checkReview() {
	if !j.k.needsReview() {
		return
	}
	before := len(j.findings)
	refuse := func(format string, args ...any) { j.find(verdict.SignoffApproval, j.kep(), format, args...) }
	fix := func(text string) { j.findings[len(j.findings)-1].Fix = text }
	number, _, _ := strings.Cut(path.Base(j.e.Dir), "-")
	file, there := j.Set.reviewOf(number, j.k.OwningSIG)
	if !there {
		refuse("production readiness: the review %s/%s/%s.yaml is missing", reviewsDir, j.k.OwningSIG, number)
		fix("have it reviewed; the file is read from the checked directory, or from " + reviewsDir + " beside the directories of SIGs above it")
		return
	}
	v, err := ParseReview(file.raw)
	stage := string(j.at)
	if j.k.leaves() {
		stage = j.k.Stage
	}
	who := v.Approvers[stage]
	switch {
	case err != nil:
		j.findings = append(j.findings, at(file.path, err))
	case v.Number != number:
		refuse("production readiness: %s is for number %s, not %s", file.path, quoted(v.Number), number)
	case path.Base(path.Dir(file.path)) != j.k.OwningSIG:
		refuse("production readiness: %s is not in the directory of %s", file.path, quoted(j.k.OwningSIG))
	case who == "" || example().MatchString(who):
		refuse("production readiness: %s names no approver for %s", file.path, stage)
	case j.Set.Reviewers == nil:
		refuse("production readiness: the list of allowed approvers is missing; %s lists them under %s", aliasesName, reviewers)
		fix("check a directory with " + aliasesName + ", or name that file with --aliases")
	case !among(who, j.Set.Reviewers):
		refuse("production readiness: %s is not one of %s", quoted(who), reviewers)
	case wrote(who, j.k.Authors):
		refuse("production readiness: %s is an author of the document", quoted(who))
	}
	j.reviewed = len(j.findings) == before
}
