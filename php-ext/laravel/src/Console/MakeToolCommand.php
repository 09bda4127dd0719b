<?php

declare(strict_types=1);

namespace Pillion\Laravel\Console;

use Illuminate\Console\GeneratorCommand;
use Illuminate\Support\Str;
use Symfony\Component\Console\Input\InputOption;

final class MakeToolCommand extends GeneratorCommand
{
    protected $name = 'make:pillion-tool';

    protected $description = 'Create a tool that models can call';

    protected $type = 'Tool';

    protected function getStub(): string
    {
        $stub = match (true) {
            (bool) $this->option('mcp') => 'pillion-tool.mcp.stub',
            (bool) $this->option('interface') => 'pillion-tool.interface.stub',
            default => 'pillion-tool.stub',
        };
        $publishedStub = $this->laravel->basePath("stubs/$stub");
        return is_file($publishedStub) ? $publishedStub : __DIR__ . "/../../stubs/$stub";
    }

    protected function getDefaultNamespace($rootNamespace): string
    {
        return $rootNamespace . '\\Tools';
    }

    protected function buildClass($name): string
    {
        // The suffix `Tool` is removed from the class name: the class `WeatherTool` becomes the
        // tool `weather`.
        $snakeName = Str::snake(class_basename($name));
        $tool = $snakeName === 'tool' ? $snakeName : Str::beforeLast($snakeName, '_tool');
        $title = ucfirst(str_replace('_', ' ', $tool));
        return str_replace(['{{ tool }}', '{{ title }}'], [$tool, $title], parent::buildClass($name));
    }

    /** @return list<array<int, mixed>> */
    protected function getOptions(): array
    {
        return [
            ['mcp', null, InputOption::VALUE_NONE, 'Create a tool that runs on an MCP server'],
            ['interface', null, InputOption::VALUE_NONE, 'Create a class with ToolInterface instead of the attribute'],
            ['force', 'f', InputOption::VALUE_NONE, 'Overwrite the class if it exists'],
        ];
    }
}
