package cli

import (
	"path/filepath"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Unused refuses the flags that were given and that have no effect on this run: a
// flag without effect would be believed to count.
func Unused(cmd *cobra.Command, why string, names ...string) (err error) {
	cmd.Flags().Visit(func(f *pflag.Flag) {
		for _, name := range names {
			if f.Name == name && err == nil {
				err = verdict.Refuse(verdict.Usage, "--"+name, "%s", why)
			}
		}
	})
	return err
}

// unused refuses the flags that the rest of the command line makes useless.
func (o *VerifyRelease) unused(cmd *cobra.Command, args []string) error {
	files := len(args) > 1
	for _, row := range []struct {
		is    bool
		why   string
		flags []string
	}{
		{o.Trust.Offline && o.Kit.File == "", "with --offline no TUF repository is used", []string{"cache", "min-root"}},
		{files, "with FILEs no images are verified", []string{"images"}},
		{files, "with FILEs no place is listed", []string{"listing"}},
		{o.Part.Only == policy.Files, "--only files leaves the images out", []string{"images"}},
		{o.Part.Only == policy.Images, "--only images leaves the files out", []string{"digests", "listing"}},
	} {
		if !row.is {
			continue
		}
		if err := Unused(cmd, row.why, row.flags...); err != nil {
			return err
		}
	}
	return nil
}

// unusedUnder refuses the flags for the other kind of release: with a manifest, or
// without.
func (o *VerifyRelease) unusedUnder(cmd *cobra.Command) error {
	if o.unsealed != nil {
		if err := Unused(cmd, "features have no effect on a release without a manifest", "features", "report-as"); err != nil {
			return err
		}
		if err := Unused(cmd, "without a manifest, files are compared by every digest in every list of the release", "digests"); err != nil {
			return err
		}
		if err := Unused(cmd, "the profile is for releases without a manifest, whose provenance names no source that counts", "source-vsa", "declaration"); err != nil {
			return err
		}
		return Unused(cmd, "the profile is for releases without a manifest, where a summary cannot replace the signatures of files", "accept-vsa")
	}
	return Unused(cmd, "the release has a manifest, whose signatures carry their time: no log is searched", "rekor-url", "evidence")
}

// answers is the directory that caches the log's answers. The download of a
// release without a manifest gets one beside it: its signatures need the answers,
// and the copy can then be verified without a network.
func (o *VerifyRelease) answers() string {
	if o.Log.Evidence != "" || o.unsealed == nil || o.Keep.Download == "" {
		return o.Log.Evidence
	}
	return filepath.Clean(o.Keep.Download) + ".evidence"
}
