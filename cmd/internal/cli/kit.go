package cli

import (
	"github.com/spf13/cobra"

	"github.com/waybill-release/waybill/pkg/backend/kit"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Kit are the flags that read a release from one file.
type Kit struct {
	File, Pin string
	// Command is the command of kit that they are for, which has the file as an
	// argument; else empty.
	Command string
}

func (o *Kit) addFlags(cmd *cobra.Command) {
	if o.Command == "" {
		cmd.Flags().StringVar(&o.File, "kit", "", "read the release from this file, which waybill kit export wrote, and make no network connection")
	}
	if o.Command != "export" {
		cmd.Flags().StringVar(&o.Pin, "pin", "", "digest that waybill kit export printed, and that you got by another way than the kit: judge by the policy and trust root in the kit, instead of by --profile")
	}
}

// openKit makes the kit, if one is named, the place of files and images.
func (o *VerifyRelease) openKit(cmd *cobra.Command) error {
	if o.Kit.File == "" {
		return Unused(cmd, "the flag is for a kit; add --kit FILE, or leave it out", "pin")
	}
	if err := Unused(cmd, "everything is read from the kit; leave the flag out", "files", "images", "listing", "place"); err != nil {
		return err
	}
	if _, err := digest.Parse(o.Kit.Pin); err != nil && o.Kit.Pin != "" {
		return verdict.Wrap(verdict.Usage, "--pin", err)
	}
	carries, err := kit.Check(cmd.Context(), o.Kit.File)
	if err != nil {
		return err
	}
	o.Trust.Offline, o.Trust.kit, o.At.Files, o.At.Images = true, o.Kit.File, o.Kit.File+"/"+kit.Files, o.Kit.File
	if cmd.Flags().Changed("profile") {
		return Unused(cmd, "with --profile, nothing that the kit says about trust counts; leave one of the flags out", "pin")
	}
	if !carries {
		return Unused(cmd, "the kit has no profile; leave the flag out", "pin")
	}
	o.Profile = o.Kit.File + "/" + kit.Trust + "profile.yaml"
	return nil
}
