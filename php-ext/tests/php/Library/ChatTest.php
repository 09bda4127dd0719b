<?php

declare(strict_types=1);

namespace Pillion\Tests\Library;

use PHPUnit\Framework\TestCase;
use Pillion\Exception\UnavailableException;
use Pillion\ToolAwareChat;
use Pillion\ToolExecutor;
use Pillion\ToolRegistry;

/**
 * Chat features that the library lacks.
 *
 * @group library
 */
final class ChatTest extends TestCase
{
    public function testH7ALocalChatLoopNeedsTheExtension(): void
    {
        $this->expectException(UnavailableException::class);
        $this->expectExceptionMessage('requires the extension pillion: install it, or run the chat in the sidecar');
        new ToolAwareChat(new ToolExecutor(new ToolRegistry()), ['base_url' => 'http://127.0.0.1:1/v1', 'model' => 'x']);
    }
}
