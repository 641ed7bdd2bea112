package cli

import (
	"slices"

	"github.com/spf13/cobra"

	"github.com/waybill-release/waybill/pkg/backend/kit"
	"github.com/waybill-release/waybill/pkg/backend/rekorv1"
	"github.com/waybill-release/waybill/pkg/gate"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Log are the flags that say where to find the log entry of a signature in a
// legacy form that carries none.
type Log struct{ URL, Evidence string }

// AddFlags adds the flags.
func (l *Log) AddFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&l.URL, "rekor-url", "", "Rekor v1 log to search for the signing time of a legacy signature that does not carry its log entry")
	f.StringVar(&l.Evidence, "evidence", "", "directory that caches the log's answers; cached answers are not requested again")
}

// Finder makes the finder of such log entries. Without a flag it makes no request,
// and offline it reaches no log.
func (l *Log) Finder(offline bool) (f rekorv1.Finder, err error) {
	if l.URL != "" {
		if f.Log, err = rekorv1.Open(l.URL, Transport(offline)); err != nil {
			return rekorv1.Finder{}, err
		}
	}
	if l.Evidence != "" {
		if f.Evidence, err = rekorv1.OpenEvidence(l.Evidence); err != nil {
			return rekorv1.Finder{}, err
		}
	}
	return f, nil
}

// Waivers are the options that name known defects and set findings aside.
type Waivers struct{ gate.Named }

// AddFlags adds the flags.
func (o *Waivers) AddFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringArrayVar(&o.Named.Exceptions, "exception", nil, "signed exception whose finding is set aside; repeats; the verdict shows each")
	f.StringArrayVar(&o.Accept, "accept-defect", nil, "ID of a known defect whose findings are set aside; repeats; the verdict shows each")
	f.StringArrayVar(&o.Defects, "known-defects", nil, "list of known defects: a bundle signed by the policy officer, or unsigned YAML, which explains findings but cannot set them aside")
}

// Exceptions are the paths of the exceptions, to send them to a gate that judges
// them.
func (o *Waivers) Exceptions() []string { return slices.Clone(o.Named.Exceptions) }

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
