<?php

declare(strict_types=1);

namespace Pillion\Laravel\Tests;

use Pillion\Exception\InvalidInputException;
use Pillion\Laravel\Facades\Pillion;
use Pillion\Laravel\SkippedEntries;
use Pillion\Tests\Support\Expect;

final class DiscoveryTest extends TestCase
{
    protected function files(): array
    {
        return [
            'app/Tools/Greeter.php' => <<<'PHP'
                <?php
                namespace App\Tools;
                use Pillion\AsTool;
                use Illuminate\Contracts\Config\Repository;
                /** Greets people */
                #[AsTool(name: 'greet')]
                class Greeter
                {
                    public function __construct(private Repository $config) {}
                    public function __invoke(string $name): string { return "{$this->config->get('app.name')} greets $name"; }
                }
                PHP,
            'app/Tools/Maths/Numbers.php' => <<<'PHP'
                <?php
                namespace App\Tools\Maths;
                use Pillion\AsTool;
                class Numbers
                {
                    #[AsTool(description: 'Doubles')] public function double(int $number): int { return 2 * $number; }
                    #[AsTool(name: 'half', description: 'Halves')] public function halve(float $number): float { return $number / 2; }
                    public function other(): void {}
                }
                PHP,
            'app/Tools/Counter.php' => <<<'PHP'
                <?php
                namespace App\Tools;
                use Pillion\ToolDefinition;
                use Pillion\ToolResult;
                class Counter extends \Pillion\Laravel\Tool
                {
                    public static int $made = 0;
                    public function __construct() { self::$made++; }
                    public function getDefinition(): ToolDefinition { return new ToolDefinition('count', 'Counts'); }
                    public function execute(array $arguments, string $toolCallId): ToolResult
                    {
                        return new ToolResult($toolCallId, 'count', spl_object_id($this));
                    }
                }
                PHP,
            'app/Broken/Unresolvable.php' => <<<'PHP'
                <?php
                namespace App\Broken;
                class Unresolvable extends \App\Tools\Counter
                {
                    public function __construct(\Countable $unboundDependency) {}
                }
                PHP,
            'app/Broken/Moody.php' => <<<'PHP'
                <?php
                namespace App\Broken;
                use Pillion\ToolDefinition;
                class Moody extends \App\Tools\Counter
                {
                    public static bool $fails = false;
                    public function __construct() { !self::$fails || throw new \RuntimeException('Not in this request'); }
                    public function getDefinition(): ToolDefinition { return new ToolDefinition('moody', 'Works at times'); }
                }
                PHP,
            'app/Broken/Described.php' => <<<'PHP'
                <?php
                namespace App\Broken;
                use Pillion\AsTool;
                #[AsTool(name: 'described', description: 'Is never made', category: 'rare', requiresConfirmation: true)]
                class Described
                {
                    public function __construct(\Countable $unboundDependency) {}
                    public function __invoke(int $number): int { return $number; }
                }
                PHP,
            'app/Tools/NoTool.php' => '<?php namespace App\Tools; class NoTool {}',
            'app/Tools/AbstractTool.php' => '<?php namespace App\Tools; abstract class AbstractTool extends \Pillion\Laravel\Tool {}',
        ];
    }

    protected function setUp(): void
    {
        parent::setUp();
        $loader = function (string $class): void {
            $file = $this->folder->path . '/app/' . strtr(substr($class, strlen('App\\')), '\\', '/') . '.php';
            if (str_starts_with($class, 'App\\') && is_file($file)) {
                require_once $file;
            }
        };
        spl_autoload_register($loader);
        $this->beforeApplicationDestroyed(fn () => spl_autoload_unregister($loader));
        $this->configure(['tools.builtins' => []]);
    }

    public function test_tools_in_the_folder_are_found(): void
    {
        self::assertSame(['count', 'greet', 'double', 'half'], array_keys(Pillion::registry()->getAll()));
        self::assertSame('Test greets Ada', Pillion::call('greet', ['name' => 'Ada'])->result);
        self::assertSame(8, Pillion::call('double', ['number' => 4])->result);
        self::assertSame('Greets people', Pillion::registry()->get('greet')->getDefinition()->description);
        self::assertSame('invalid_input', Pillion::call('double', ['number' => 'x'])->errorCode);
    }

    public function test_each_call_gets_its_own_object(): void
    {
        Pillion::registry();
        $before = \App\Tools\Counter::$made;
        Pillion::call('count');
        Pillion::call('count');
        self::assertSame($before + 2, \App\Tools\Counter::$made);
    }

    public function test_the_class_decides_the_visibility(): void
    {
        self::assertSame(['double'], Pillion::forModel(['function_calling' => true, 'enabled_tools' => ['double']])->names());
        self::assertSame(['count'], Pillion::forModel(['function_calling' => true, 'enabled_tools' => ['count']])->names());
        self::assertSame([], Pillion::forModel(['mcp' => true])->names());
    }

    public function test_only_a_class_that_cannot_be_created_is_skipped(): void
    {
        $classes = [\App\Broken\Unresolvable::class, \App\Broken\Moody::class, \App\Broken\Described::class];
        $this->configure(['tools.classes' => $classes, 'log.channel' => 'pillion']);
        $model = ['function_calling' => true];
        self::assertSame(['count', 'greet', 'double', 'half', 'moody', 'described'], Pillion::forModel($model)->names());
        self::assertSame(8, Pillion::call('double', ['number' => 4])->result);
        self::assertSame([\App\Broken\Unresolvable::class], array_keys(Pillion::skipped()));
        self::assertStringContainsString('Countable', Pillion::skipped()[\App\Broken\Unresolvable::class]);
        $log = (string) file_get_contents(storage_path('logs/pillion.log'));
        self::assertSame(1, substr_count($log, 'Skipped an entry that failed'));
        self::assertStringContainsString('Unresolvable', $log);

        \App\Broken\Moody::$fails = true;
        $this->beforeApplicationDestroyed(fn () => \App\Broken\Moody::$fails = false);
        self::assertNotContains('moody', Pillion::forModel($model)->names());
        self::assertContains('count', array_column(array_column(Pillion::forModel($model)->format('openai'), 'function'), 'name'));
        self::assertSame('internal_error', Pillion::call('moody')->errorCode);
        self::assertStringContainsString('Not in this request', (string) file_get_contents(storage_path('logs/pillion.log')));
    }

    public function test_a_class_that_cannot_be_created_does_not_rebuild_the_registry(): void
    {
        $this->configure(['tools.classes' => [\App\Broken\Unresolvable::class], 'cache.retry_after' => 30]);
        $registry = Pillion::registry();
        $this->travel(60)->seconds();
        self::assertSame([\App\Broken\Unresolvable::class], array_keys(Pillion::skipped()));
        self::assertSame($registry, Pillion::registry(), 'no server has to be listed again');
        app(SkippedEntries::class)->remove(\App\Broken\Unresolvable::class);
        self::assertSame([], Pillion::skipped());
    }

    public function test_only_an_invalid_server_entry_is_skipped(): void
    {
        $this->configure(['servers' => ['unset' => ['url' => null], 'odd' => 'https://example.org/mcp'], 'log.channel' => 'pillion']);
        self::assertSame(8, Pillion::call('double', ['number' => 4])->result);
        self::assertContains('double', Pillion::forModel(['function_calling' => true])->names());
        self::assertSame(['unset', 'odd'], array_keys(Pillion::skipped()));
        self::assertStringContainsString('neither a url nor a command', Pillion::skipped()['unset']);
        self::assertStringContainsString('unset', (string) file_get_contents(storage_path('logs/pillion.log')));
        [$code, $shown] = $this->artisanOutput('pillion:servers');
        self::assertSame(0, $code);
        self::assertStringContainsString('neither a url nor a command', $shown);
        // Requesting a skipped server by its name throws the exception.
        Expect::exception(\Pillion\Exception\InvalidInputException::class, fn () => Pillion::server('unset')->listTools());
    }

    public function test_attributes_describe_a_tool_without_an_object(): void
    {
        $this->configure(['tools.discover' => [], 'tools.classes' => [\App\Broken\Described::class]]);
        $definition = Pillion::registry()->get('described')->getDefinition();
        self::assertSame(['Is never made', 'rare', true], [$definition->description, $definition->category, $definition->requiresConfirmation]);
        self::assertSame(['described'], Pillion::forModel(['function_calling' => true])->names());
        self::assertSame([], Pillion::skipped());
        $id = Pillion::call('described', ['number' => 1])->metadata['approval_id'];
        Pillion::approvals()->approve($id);
        self::assertSame('internal_error', Pillion::call('described', ['number' => 1])->errorCode);
    }

    public function test_builtins_and_aliases_of_the_configuration(): void
    {
        $this->configure(['tools.builtins' => ['get_time'], 'tools.discover' => [], 'tools.aliases' => ['time_tool' => 'get_time']]);
        self::assertSame(['get_time'], array_keys(Pillion::registry()->getAll()));
        self::assertTrue(Pillion::call('time_tool')->success);
    }

    public function test_a_class_that_is_not_a_tool_is_rejected_by_name(): void
    {
        $this->configure(['tools.classes' => [\App\Tools\NoTool::class]]);
        $this->expectException(InvalidInputException::class);
        $this->expectExceptionMessage('App\\Tools\\NoTool is not a class with ToolInterface or #[AsTool]');
        Pillion::registry();
    }
}
