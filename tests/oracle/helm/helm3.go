package main

import (
	"fmt"
	"io"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/cli/values"
	"helm.sh/helm/v3/pkg/getter"
	kubefake "helm.sh/helm/v3/pkg/kube/fake"
	"helm.sh/helm/v3/pkg/storage"
	"helm.sh/helm/v3/pkg/storage/driver"
)

// render3 is what the command line of Helm 3 does, with files in memory.
func render3(asked request, files []file, paths []string) (outcome, error) {
	options := values.Options{
		ValueFiles:    paths,
		Values:        asked.arguments("set"),
		StringValues:  asked.arguments("set-string"),
		JSONValues:    asked.arguments("set-json"),
		LiteralValues: asked.arguments("set-literal"),
	}
	user, err := options.MergeValues(getter.Providers{})
	if err != nil {
		return outcome{}, err
	}
	buffered := []*loader.BufferedFile{}
	for _, f := range files {
		buffered = append(buffered, &loader.BufferedFile{Name: f.name, Data: f.data})
	}
	chart, err := loader.LoadFiles(buffered)
	if err != nil {
		return outcome{}, err
	}
	if t := chart.Metadata.Type; t != "" && t != "application" {
		return outcome{}, fmt.Errorf("%s charts are not installable", t)
	}
	if err := action.CheckDependencies(chart, chart.Metadata.Dependencies); err != nil {
		return outcome{}, err
	}
	install := action.NewInstall(&action.Configuration{
		Log:        func(string, ...any) {},
		Releases:   storage.Init(driver.NewMemory()),
		KubeClient: &kubefake.PrintingKubeClient{Out: io.Discard},
	})
	install.DryRun, install.ClientOnly, install.Replace, install.IncludeCRDs = true, true, true, true
	install.DryRunOption = "true"
	install.ReleaseName, install.Namespace = "rel", "ns"
	install.IsUpgrade, install.SkipSchemaValidation = asked.Upgrade, asked.SkipSchema
	install.APIVersions = asked.APIVersions
	install.KubeVersion, err = chartutil.ParseKubeVersion(asked.KubeVersion)
	if err != nil {
		return outcome{}, err
	}
	made, err := install.Run(chart, user)
	if err != nil {
		return outcome{}, err
	}
	got := outcome{Manifest: made.Manifest, Hooks: []hook{}, Notes: made.Info.Notes}
	for _, h := range made.Hooks {
		got.Hooks = append(got.Hooks, hook{
			Path: h.Path, Name: h.Name, Kind: h.Kind, Manifest: h.Manifest, Weight: h.Weight,
			Events: texts(h.Events), DeletePolicies: texts(h.DeletePolicies), LogPolicies: texts(h.OutputLogPolicies),
		})
	}
	return got, nil
}

func texts[T ~string](list []T) []string {
	out := []string{}
	for _, item := range list {
		out = append(out, string(item))
	}
	return out
}
