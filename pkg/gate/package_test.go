package gate

import "testing"

func TestPackageOf(t *testing.T) {
	for _, row := range []struct {
		asked, subject string
		is             bool
	}{
		{"@scope/name@1.2.3", "pkg:npm/%40scope/name@1.2.3", true},
		{"name@1.2.3", "pkg:npm/name@1.2.3", true},
		{"name@1.2.3", "pkg:npm/%40scope/name@1.2.3", false},
		{"name@1.2.3", "pkg:npm/name@1.2.30", false},
		{"name@1.2.3", "pkg:npm/Name@1.2.3", false},
		{"name@1.2.3", "pkg:npm/%zz@1.2.3", false},
		{"Sample.Project@4.0.0", "sample_project-4.0.0-py3-none-any.whl", true},
		{"sample-project@4.0.0", "sample_project-4.0.0-1-cp313-cp313-manylinux_2_17_x86_64.whl", true},
		{"sample-project@4.0.0", "sample_project-4.0.0.tar.gz", true},
		{"sample-project@4.0.0", "sample-project-4.0.0.zip", true},
		{"sample@4.0.0", "sample_project-4.0.0.tar.gz", false},
		{"sample-project@4.0", "sample_project-4.0.0-py3-none-any.whl", false},
		{"sample-project@4.0.0", "sample_project-4.0.0-py3-none-any.whl.txt", false},
		{"sample-project@4.0.0", "sample_project-4.0.0-none-any.whl", false},
		{"sample-project@4.0.0", "dist/sample_project-4.0.0.tar.gz", false},
		{"sample-project@", "sample_project-.tar.gz", false},
		{"sample-project", "sample-project", false},
		{"@scope/name", "pkg:npm/%40scope/name", false},
		{"", "", false},
	} {
		if packageOf(row.asked, row.subject) != row.is {
			t.Errorf("%q named %q: want %v", row.asked, row.subject, row.is)
		}
	}
}
