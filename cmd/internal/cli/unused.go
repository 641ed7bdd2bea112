package cli

import (
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/waybill-release/waybill/pkg/gate/latest"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Unused refuses the flags that were given and that the command does not use
// for what it is asked about. Nobody is left to believe that a flag counted.
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

// unused refuses what the rest of the command line leaves without a use.
func (o *VerifyRelease) unused(cmd *cobra.Command, args []string) error {
	files := len(args) > 1
	for _, row := range []struct {
		is    bool
		why   string
		flags []string
	}{
		{!latest.IsChannel(args[0]), "it remembers which channel index was seen, and a version is looked up in none", []string{"state"}},
		{o.Trust.Offline, "offline no repository is asked for a trust root", []string{"cache", "min-root"}},
		{files, "the FILEs are looked at instead of the images", []string{"images"}},
		{files, "the FILEs are looked at instead of what is listed", []string{"listing"}},
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

// unusedUnder refuses what is asked of the other kind of release: with a
// manifest, or without.
func (o *VerifyRelease) unusedUnder(cmd *cobra.Command) error {
	if o.unsealed != nil {
		if err := Unused(cmd, "no feature switches what is asked of a release without a manifest", "features", "report-as"); err != nil {
			return err
		}
		if err := Unused(cmd, "without a manifest every list of the release is compared by all digests that it names", "digests"); err != nil {
			return err
		}
		return Unused(cmd, "the profile says that the release has no manifest, and no summary stands for the signatures of its files", "accept-vsa")
	}
	return Unused(cmd, "the release has a manifest, and its signatures say themselves when they were made: no log is asked", "rekor-url", "evidence")
}
