<?php

declare(strict_types=1);

namespace Pillion\Laravel\Tools;

use Illuminate\Contracts\Config\Repository;
use Pillion\Exception\InvalidInputException;
use Pillion\Laravel\Configured;
use Pillion\Laravel\LeftOut;
use Pillion\Laravel\Servers\ServerConfig;
use Pillion\Laravel\Servers\ServerDirectory;
use Pillion\MCPToolInterface;
use Pillion\ToolInterface;
use Pillion\ToolRegistry;
use Throwable;

/**
 * Creates the registry of the application: built-in tools, its own classes, and tool classes of configured
 * servers. Contacts no servers.
 */
final class ApplicationTools
{
    public function __construct(
        private readonly Repository $config,
        private readonly ServerDirectory $servers,
        private readonly Discovery $discovery,
        private readonly LeftOut $leftOut,
    ) {
    }

    public function registry(): ToolRegistry
    {
        $registry = new ToolRegistry();
        $this->registerBuiltins($registry);
        foreach ($this->classes() as $class) {
            $this->unlessItFails($class, function () use ($registry, $class): void {
                foreach (ContainerTool::of($class) as $tool) {
                    $registry->register($tool, replace: true);
                }
            });
        }
        foreach ($this->servers->all() as $server) {
            if ($server->class !== null && $server->register) {
                $class = self::classOf($server);
                $this->unlessItFails(
                    $class,
                    fn () => $registry->register(self::toolOf($class, $server), replace: true),
                );
            }
        }
        foreach (Configured::texts($this->config, 'tools.aliases') as $alias => $tool) {
            // RequestRegistry adds aliases for tools of servers later.
            if ($registry->has($tool)) {
                $registry->alias($alias, $tool);
            }
        }
        return $registry;
    }

    /** @return list<class-string> */
    public function classes(): array
    {
        $named = Configured::array($this->config, 'tools.classes');
        foreach ($named as $class) {
            if (!is_string($class) || !Discovery::isTool($class)) {
                throw new InvalidInputException(sprintf(
                    "pillion.tools.classes: %s is no class with ToolInterface or #[AsTool]",
                    is_string($class) ? $class : get_debug_type($class),
                ));
            }
        }
        $found = $this->discovery->find(Configured::texts($this->config, 'tools.discover'));
        // registry() creates the tool class of a server, with the server's entry.
        $ofServers = array_map(fn (ServerConfig $server) => $server->class, $this->servers->all());
        return array_values(array_diff(array_unique([...$found, ...$named]), array_filter($ofServers)));
    }

    private function registerBuiltins(ToolRegistry $registry): void
    {
        $wanted = $this->config->get('pillion.tools.builtins', true);
        if ($wanted === false || $wanted === []) {
            return;
        }
        $builtins = $this->builtins();
        $names = $wanted === true ? array_keys($builtins->getAll()) : Configured::texts($this->config, 'tools.builtins');
        foreach ($names as $name) {
            $tool = $builtins->get($name);
            if ($tool === null && isset($this->leftOut->reasons()[self::ofService($name)])) {
                continue;
            }
            if ($tool === null) {
                throw new InvalidInputException("pillion.tools.builtins: there is no built-in tool '$name'");
            }
            $registry->register($tool);
        }
    }

    /** Returns all built-in tools, including the network tools that can be created. */
    private function builtins(): ToolRegistry
    {
        $builtins = ToolRegistry::withBuiltins();
        foreach (Configured::array($this->config, 'tools.services') as $name => $settings) {
            $this->unlessItFails(self::ofService($name), static function () use ($builtins, $name, $settings): void {
                $tool = ToolRegistry::withBuiltins([$name => $settings])->get((string) $name);
                if ($tool !== null) {
                    $builtins->register($tool, replace: true);
                }
            });
        }
        return $builtins;
    }

    /** Returns the name under which a skipped service is recorded. */
    private static function ofService(int|string $name): string
    {
        return "pillion.tools.services.$name";
    }

    /** Skips and records an entry that fails; the others are not affected. */
    private function unlessItFails(string $of, \Closure $register): void
    {
        try {
            $register();
            $this->leftOut->remove($of);
        } catch (Throwable $e) {
            $this->leftOut->add($of, $e);
        }
    }

    /** @return class-string<ToolInterface> */
    private static function classOf(ServerConfig $server): string
    {
        $class = (string) $server->class;
        if (!is_a($class, ToolInterface::class, true)) {
            throw new InvalidInputException("MCP server '$server->name': $class is no class with ToolInterface");
        }
        return $class;
    }

    /** @param class-string<ToolInterface> $class */
    private static function toolOf(string $class, ServerConfig $server): ToolInterface
    {
        $tool = new $class($server->forToolClass());
        return $tool instanceof MCPToolInterface ? new ServerMcpTool($tool) : new ServerTool($tool);
    }
}
