// An OpenTelemetry collector for tests: the OTLP receiver, and an exporter that appends what it gets to a file, one JSON
// object per line. While the file REFUSE next to it exists, the exporter fails, as one whose backend is down.
package main

import (
	"context"
	"errors"
	"log"
	"os"
	"sync"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/confmap/provider/fileprovider"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/otelcol"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
	"go.opentelemetry.io/collector/service/telemetry/otelconftelemetry"
)

var lines = component.MustNewType("lines")

type config struct {
	Path string `mapstructure:"path"`
}

type writer struct {
	component.StartFunc
	component.ShutdownFunc
	path string
}

var mutex sync.Mutex

func (writer) Capabilities() consumer.Capabilities { return consumer.Capabilities{} }

func (w writer) write(line []byte, err error) error {
	if err != nil {
		return err
	}
	if _, missing := os.Stat(w.path + ".REFUSE"); missing == nil {
		return errors.New("the backend is down")
	}
	mutex.Lock()
	defer mutex.Unlock()
	file, err := os.OpenFile(w.path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = file.Write(append(line, '\n'))
	return err
}

func (w writer) ConsumeMetrics(_ context.Context, metrics pmetric.Metrics) error {
	return w.write((&pmetric.JSONMarshaler{}).MarshalMetrics(metrics))
}

func (w writer) ConsumeLogs(_ context.Context, logs plog.Logs) error {
	return w.write((&plog.JSONMarshaler{}).MarshalLogs(logs))
}

func newWriter(given component.Config) writer { return writer{path: given.(*config).Path} }

func lineExporter() exporter.Factory {
	return exporter.NewFactory(lines, func() component.Config { return &config{} },
		exporter.WithMetrics(func(_ context.Context, _ exporter.Settings, given component.Config) (exporter.Metrics, error) {
			return newWriter(given), nil
		}, component.StabilityLevelDevelopment),
		exporter.WithLogs(func(_ context.Context, _ exporter.Settings, given component.Config) (exporter.Logs, error) {
			return newWriter(given), nil
		}, component.StabilityLevelDevelopment))
}

func factories() (otelcol.Factories, error) {
	receivers, err := otelcol.MakeFactoryMap[receiver.Factory](otlpreceiver.NewFactory())
	if err != nil {
		return otelcol.Factories{}, err
	}
	exporters, err := otelcol.MakeFactoryMap[exporter.Factory](lineExporter())
	return otelcol.Factories{Receivers: receivers, Exporters: exporters, Telemetry: otelconftelemetry.NewFactory()}, err
}

func main() {
	command := otelcol.NewCommand(otelcol.CollectorSettings{
		BuildInfo: component.BuildInfo{Command: "lockstep-test-collector"},
		Factories: factories,
		ConfigProviderSettings: otelcol.ConfigProviderSettings{ResolverSettings: confmap.ResolverSettings{
			DefaultScheme:     "file",
			ProviderFactories: []confmap.ProviderFactory{fileprovider.NewFactory()}}},
	})
	if err := command.Execute(); err != nil {
		log.Fatal(err)
	}
}
