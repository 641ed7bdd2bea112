package cli

import (
	"encoding/json"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/waybill-release/waybill/cmd/internal/exit"
	"github.com/waybill-release/waybill/pkg/report/explain"
	"github.com/waybill-release/waybill/pkg/tool/slice"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Explain is the command that explains reason codes, in every program.
func Explain() *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:   "explain [CODE]",
		Short: "Explain a reason code: what happened, and what to do",
		Long: `Explain a reason code: what happened, who can repair it, the attack that it may be,
and what to do about it. Without CODE all codes are listed, by subject.

` + exit.Table("the explanation was printed"),
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var value any = explain.All()
			show := explain.List
			if len(args) > 0 {
				e, known := explain.Of(args[0])
				if !known {
					return unknownCode(cmd, args[0])
				}
				value, show = e, func(w io.Writer) error { return explain.Text(w, e) }
			}
			if format == "text" {
				return show(cmd.OutOrStdout())
			}
			out := json.NewEncoder(cmd.OutOrStdout())
			out.SetIndent("", "  ")
			return out.Encode(value)
		},
	}
	cmd.ValidArgsFunction = func(*cobra.Command, []string, string) (codes []cobra.Completion, _ cobra.ShellCompDirective) {
		return slice.Map(explain.All(), func(e explain.Entry) cobra.Completion { return cobra.CompletionWithDesc(string(e.Code), e.Title) }), cobra.ShellCompDirectiveNoFileComp
	}
	AddFormat(cmd, &format, "text or json", "text", "json")
	return cmd
}

// unknownCode refuses a code, and names those that are written alike.
func unknownCode(cmd *cobra.Command, code string) error {
	names := &cobra.Command{SuggestionsMinimumDistance: 3}
	for _, e := range explain.All() {
		names.AddCommand(&cobra.Command{Use: string(e.Code), Run: func(*cobra.Command, []string) {}})
	}
	near := names.SuggestionsFor(code)
	message := "%q is no reason code"
	if len(near) > 0 {
		message += "; similar: " + strings.Join(near, ", ")
	}
	return verdict.Refuse(verdict.Usage, "CODE", message, code).Advise(cmd.CommandPath() + " without CODE lists all codes")
}
