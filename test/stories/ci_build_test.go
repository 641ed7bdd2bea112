package stories

import "testing"

// TestBuildBetweenReleases: a build of continuous integration is staged, sealed
// and verified like a release, from the commit that its version names and no
// other. Its images have its version as a tag, without the plus sign.
func TestBuildBetweenReleases(t *testing.T) {
	s := openSourced(t)
	commit := s.git(t, "rev-parse", "main")[:14]
	build, tag := "v0.2.0-alpha.0.7+"+commit, "v0.2.0-alpha.0.7_"+commit
	flags := append([]string{"--profile", "profile.yaml", "--state", "state"}, s.flags(t)[2:]...) // the tokens alone
	run := func(command string, more ...string) []string {
		return append(append([]string{"waybill", command, build}, flags...), more...)
	}
	want(t, s.Run(t.Context(), run("stage", "--source", "lantern", "--confirm")...), 2, "create the tag") // a commit has to be named
	other := run("stage", "--source", "lantern@main", "--confirm")
	other[2] = "v0.2.0-alpha.0.7+2a4f1c09d3be1f"
	want(t, s.Run(t.Context(), other...), 1, "SOURCE_COMMIT", "another commit")
	want(t, s.Run(t.Context(), run("stage", "--source", "lantern@main", "--confirm")...), 0, "nothing extra")
	want(t, s.Run(t.Context(), "waybill", "release", build, "--profile", "profile.yaml", "--state", "state", "--confirm"), 0)
	want(t, s.Run(t.Context(), "k8s-verify-release", build, "--profile", "profile.yaml"), 0, "nothing extra")
	want(t, s.Run(t.Context(), "k8s-verify-release", "v0.2.0-alpha.0.8+"+commit, "--profile", "profile.yaml"), 1, "EVIDENCE_MISSING")
	// The build's tag is not an extra one of the release that the build came after.
	s.git(t, "tag", "-a", "-m", "alpha", "v0.2.0-alpha.0")
	flags = append([]string{"--profile", "profile.yaml", "--state", "alpha"}, s.flags(t)...)
	want(t, s.Run(t.Context(), append(append([]string{"waybill", "stage", "v0.2.0-alpha.0"}, flags...), "--confirm")...), 0)
	want(t, s.Run(t.Context(), "waybill", "release", "v0.2.0-alpha.0", "--profile", "profile.yaml", "--state", "alpha", "--confirm"), 0, "nothing extra")
	want(t, s.Run(t.Context(), "waybill", "inspect", s.Lab.Registry+"/release/lantern/lantern:"+tag), 0)
}
