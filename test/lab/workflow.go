package lab

import (
	"cmp"
	"time"
)

// workflowsAt is the path of the issuer whose tokens are those of GitHub's
// workflows.
const workflowsAt = "/workflows"

// Workflow is a run of a workflow on GitHub that a tag started.
type Workflow struct {
	Repository string // OWNER/NAME
	File       string // "release.yml"
	Tag        string
	Commit     string
	Ref        string // that started it instead of the tag, such as refs/heads/main
	Called     string // the reusable workflow that it called: OWNER/NAME/.github/workflows/FILE@REF
}

// Identity is what certificates for the workflow say.
func (w Workflow) Identity(l *Lab) (issuer, subject string) {
	return l.Issuer + workflowsAt, "https://github.com/" + w.ref()
}

func (w Workflow) ref() string {
	return w.Repository + "/.github/workflows/" + w.File + "@" + w.started()
}

func (w Workflow) started() string { return cmp.Or(w.Ref, "refs/tags/"+w.Tag) }

// Token mints a token with the claims that GitHub gives such a run, for as long
// as a build may take.
func (w Workflow) Token(l *Lab) (string, error) {
	issuer, _ := w.Identity(l)
	return l.issuer.mint("workflow@lab.invalid", map[string]any{
		"iss": issuer, "sub": "repo:" + w.Repository + ":ref:" + w.started(), "email": "", "exp": l.clock().Add(6 * time.Hour).Unix(),
		"job_workflow_ref": cmp.Or(w.Called, w.ref()), "workflow_ref": w.ref(), "workflow": w.File, "event_name": "push",
		"repository": w.Repository, "repository_id": "1", "repository_owner": "lab", "repository_owner_id": "1", "repository_visibility": "public",
		"ref": w.started(), "sha": w.Commit, "job_workflow_sha": w.Commit, "workflow_sha": w.Commit,
		"runner_environment": "github-hosted", "run_id": "1", "run_attempt": "1",
	})
}
