<?php

declare(strict_types=1);

namespace Pillion\Laravel\Tools;

use Illuminate\Contracts\Config\Repository;
use Pillion\Exception\InvalidInputException;
use Pillion\Laravel\ConfigReader;
use Pillion\Laravel\Servers\ServerConfig;
use Pillion\Laravel\Servers\ServerDirectory;
use Pillion\Laravel\SkippedEntries;
use Pillion\MCPToolInterface;
use Pillion\ToolInterface;
use Pillion\ToolRegistry;
use Throwable;

/**
 * Creates the registry of the application: built-in tools, the application's classes, and tool classes of
 * configured servers. Contacts no servers.
 */
final class ApplicationTools
{
    public function __construct(
        private readonly Repository $config,
        private readonly ServerDirectory $servers,
        private readonly ToolDiscovery $discovery,
        private readonly SkippedEntries $skipped,
    ) {
    }

    public function registry(): ToolRegistry
    {
        $registry = new ToolRegistry();
        $this->registerBuiltins($registry);
        foreach ($this->classes() as $class) {
            $this->registerOrSkip($class, function () use ($registry, $class): void {
                foreach (ContainerTool::forClass($class) as $tool) {
                    $registry->register($tool, replace: true);
                }
            });
        }
        foreach ($this->servers->all() as $server) {
            if ($server->class !== null && $server->register) {
                $class = self::readToolClass($server);
                $this->registerOrSkip(
                    $class,
                    fn () => $registry->register(self::createTool($class, $server), replace: true),
                );
            }
        }
        RequestRegistry::addAliases($registry, $this->config);
        return $registry;
    }

    /** @return list<class-string> */
    public function classes(): array
    {
        $configuredClasses = ConfigReader::readArray($this->config, 'tools.classes');
        foreach ($configuredClasses as $class) {
            if (!is_string($class) || !ToolDiscovery::isTool($class)) {
                throw new InvalidInputException(sprintf(
                    "pillion.tools.classes: %s is not a class with ToolInterface or #[AsTool]",
                    is_string($class) ? $class : get_debug_type($class),
                ));
            }
        }
        $discoveredClasses = $this->discovery->find(ConfigReader::readStrings($this->config, 'tools.discover'));
        // The tool classes of servers are omitted, because `registry()` creates each of them with
        // its server's entry.
        $serverClasses = array_map(fn (ServerConfig $server) => $server->class, $this->servers->all());
        return array_values(array_diff(array_unique([...$discoveredClasses, ...$configuredClasses]), array_filter($serverClasses)));
    }

    private function registerBuiltins(ToolRegistry $registry): void
    {
        $builtinsSetting = ConfigReader::read($this->config, 'tools.builtins', true);
        if ($builtinsSetting === false || $builtinsSetting === []) {
            return;
        }
        $builtins = $this->builtins();
        $names = $builtinsSetting === true ? array_keys($builtins->getAll()) : ConfigReader::readStrings($this->config, 'tools.builtins');
        foreach ($names as $name) {
            $tool = $builtins->get($name);
            if ($tool === null && isset($this->skipped->reasons()[self::serviceEntryName($name)])) {
                continue;
            }
            if ($tool === null) {
                throw new InvalidInputException("pillion.tools.builtins: unknown built-in tool '$name'");
            }
            $registry->register($tool);
        }
    }

    /** Returns all built-in tools. Network tools whose settings are invalid are skipped. */
    private function builtins(): ToolRegistry
    {
        $builtins = ToolRegistry::withBuiltins();
        foreach (ConfigReader::readArray($this->config, 'tools.services') as $name => $settings) {
            $this->registerOrSkip(self::serviceEntryName($name), static function () use ($builtins, $name, $settings): void {
                $tool = ToolRegistry::withBuiltins([$name => $settings])->get((string) $name);
                if ($tool !== null) {
                    $builtins->register($tool, replace: true);
                }
            });
        }
        return $builtins;
    }

    /** Returns the name under which a skipped service is recorded. */
    private static function serviceEntryName(int|string $name): string
    {
        return "pillion.tools.services.$name";
    }

    /**
     * Registers an entry. If the registration throws an exception, the entry is skipped and
     * recorded; other entries are not affected.
     */
    private function registerOrSkip(string $name, \Closure $registerTool): void
    {
        try {
            $registerTool();
            $this->skipped->remove($name);
        } catch (Throwable $exception) {
            $this->skipped->add($name, $exception);
        }
    }

    /** @return class-string<ToolInterface> */
    private static function readToolClass(ServerConfig $server): string
    {
        $class = (string) $server->class;
        if (!is_a($class, ToolInterface::class, true)) {
            throw new InvalidInputException("MCP server '$server->name': $class is not a class with ToolInterface");
        }
        return $class;
    }

    /** @param class-string<ToolInterface> $class */
    private static function createTool(string $class, ServerConfig $server): ToolInterface
    {
        $tool = new $class($server->toolClassEntry());
        return $tool instanceof MCPToolInterface ? new ServerMcpTool($tool) : new ServerTool($tool);
    }
}
