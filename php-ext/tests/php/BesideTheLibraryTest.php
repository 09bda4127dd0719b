<?php

declare(strict_types=1);

namespace Pillion\Tests;

use Pillion\Tests\Support\Process;
use PHPUnit\Framework\TestCase;

/**
 * Applications may install both the extension and the library.
 *
 * @group extension
 */
final class BesideTheLibraryTest extends TestCase
{
    public function testTheExtensionDefinesTheClasses(): void
    {
        $code = 'require ' . var_export(__DIR__ . '/../../library/autoload.php', true) . ';'
            . <<<'PHP'
            $classes = ['ToolCall', 'ToolDefinition', 'ToolResult', 'ToolRegistry', 'ToolExecutor', 'Sidecar', 'MCPSSEClient', 'ProviderFormat'];
            foreach ($classes as $class) {
                echo (new ReflectionClass("Pillion\\$class"))->isInternal() ? '.' : $class;
            }
            echo Pillion\ToolRegistry::withBuiltins()->execute('calculator', ['expression' => '6*7'], '1')->result;
            PHP;
        self::assertSame('........42', Process::php($code)['output']);
    }
}
